//! What replies are as values of Rust.

use std::collections::HashMap;

use redis::{cmd, from_redis_value_ref, Connection, ErrorKind, RedisResult, ServerErrorKind, Value};

use super::{acquire, resp3, Server};

type Map = HashMap<String, Value>;

/// A connection for each protocol, and whether it is the newer one.
fn both(server: &Server) -> [(Connection, bool); 2] {
    [(server.client.get_connection().unwrap(), false), (resp3(&server.client).get_connection().unwrap(), true)]
}

#[test]
fn counts_tokens_and_null() {
    let server = Server::start();
    for (mut connection, _) in both(&server) {
        assert_eq!(acquire("first", 1).query(&mut connection), Ok(Some(1)));
        assert_eq!(acquire("second", 1).query(&mut connection), Ok(None::<u32>));
        assert_eq!(acquire("second", 1).query(&mut connection), Ok(Value::Nil));
        // A number that is no `Option` is an error when there is none.
        let error = acquire("second", 1).query::<u32>(&mut connection).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Parse, None));
        assert_eq!(cmd("LOCK.RELEASE").arg("a").arg("first").query(&mut connection), Ok(0));
        let token: u64 = cmd("LOCK.ACQUIRE").arg("b").arg("first").arg("FENCED").query(&mut connection).unwrap();
        assert!(token > u64::from(u32::MAX));
        cmd("LOCK.FORCE").arg("b").exec(&mut connection).unwrap();
        let watch = cmd("LOCK.WATCH").arg("b").arg("first").take();
        assert_eq!(watch.query(&mut connection), Ok(Value::SimpleString("LOST".into())));
        assert_eq!(watch.query(&mut connection), Ok(Some("LOST".to_string())));
    }
}

#[test]
fn errors_have_their_code() {
    let mut server = Server::start();
    server.say::<()>(&["SET", "text", "x"]);
    for (mut connection, _) in both(&server) {
        let mut refused = |words: [&str; 3]| {
            let said: RedisResult<u32> = cmd(words[0]).arg(&words[1..]).query(&mut connection);
            let error = said.unwrap_err();
            (error.kind(), error.code().unwrap_or_default().to_string(), error.detail().unwrap_or_default().to_string())
        };
        let (kind, code, text) = refused(["LOCK.RELEASE", "a", "nobody"]);
        assert_eq!((kind, code.as_str()), (ErrorKind::Extension, "NOTHELD"));
        assert!(!text.is_empty() && !text.contains("NOTHELD"));
        let (kind, code, _) = refused(["LOCK.ACQUIRE", "text", "a"]);
        assert_eq!((kind, code.as_str()), (ErrorKind::Extension, "WRONGTYPE"));
        let (kind, code, _) = refused(["LOCK.ACQUIRE", "a", "mode"]);
        assert_eq!((kind, code.as_str()), (ErrorKind::Server(ServerErrorKind::ResponseError), "ERR"));
    }
}

#[test]
fn info_is_a_map_in_both_protocols() {
    let mut server = Server::held();
    for (mut connection, is_new) in both(&server) {
        let raw: Value = cmd("LOCK.INFO").arg("a").query(&mut connection).unwrap();
        assert!(matches!((&raw, is_new), (Value::Map(_), true) | (Value::Array(_), false)));
        let info: Map = cmd("LOCK.INFO").arg("a").query(&mut connection).unwrap();
        let mode: String = from_redis_value_ref(&info["mode"]).unwrap();
        let holders: Vec<Map> = from_redis_value_ref(&info["holders"]).unwrap();
        let owner: String = from_redis_value_ref(&holders[0]["owner"]).unwrap();
        assert_eq!((mode.as_str(), owner.as_str(), &holders[0]["session"]), ("exclusive", "holder", &Value::Nil));
    }
    server.hand_on();
    for (mut connection, _) in both(&server) {
        assert_eq!(cmd("LOCK.INFO").arg("a").query(&mut connection), Ok(None::<Map>));
        // Not asked for as an `Option`, a lock that is free looks like a map without fields.
        assert_eq!(
            cmd("LOCK.INFO").arg("a").query::<Map>(&mut connection).map_err(|error| error.kind()),
            Ok(Map::new())
        );
    }
}
