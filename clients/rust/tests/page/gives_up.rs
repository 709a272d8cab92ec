use redis::{aio::ConnectionLike, cmd, RedisResult};
use tokio::task::JoinHandle;

/// Takes back what the task `wait` has asked for, on another connection than that one's.
pub async fn give_up<T>(wait: JoinHandle<T>, key: &str, owner: &str, on: &mut impl ConnectionLike) -> RedisResult<()> {
    loop {
        // A 0 of a wait that is not over means that its command has not come to the server yet.
        let is_over = wait.is_finished();
        let found: u32 = cmd("LOCK.CANCEL").arg(key).arg(owner).arg("RELEASE").query_async(on).await?;
        if found > 0 || is_over {
            return Ok(());
        }
    }
}
