use std::collections::HashMap;

use redis::{cmd, from_redis_value_ref, Connection, RedisResult, Value};

type Map = HashMap<String, Value>;

pub fn holders(connection: &mut Connection, key: &str) -> RedisResult<Vec<String>> {
    let info: Option<Map> = cmd("LOCK.INFO").arg(key).query(connection)?;
    let Some(info) = info else { return Ok(Vec::new()) };
    let holders: Vec<Map> = from_redis_value_ref(&info["holders"])?;
    holders.iter().map(|holder| Ok(from_redis_value_ref(&holder["owner"])?)).collect()
}
