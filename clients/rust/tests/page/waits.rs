use redis::{cmd, Client, RedisResult};

pub fn report(client: &Client, owner: &str) -> RedisResult<()> {
    let mut connection = client.get_connection()?; // without set_read_timeout
    let mut acquire = cmd("LOCK.ACQUIRE");
    acquire.arg("report").arg(owner).arg("EX").arg(60).arg("BLOCK").arg(10_000).arg("ONCE");
    if acquire.query::<Option<u32>>(&mut connection)?.is_none() {
        println!("another client works on it");
        return Ok(());
    }
    println!("working");
    cmd("LOCK.RELEASE").arg("report").arg(owner).exec(&mut connection)
}
