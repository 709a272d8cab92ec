use redis::{aio::ConnectionLike, cmd, RedisResult};
use tokio::task::JoinHandle;

/// Gives up what the task `wait` has requested, on another connection.
pub async fn give_up<T>(wait: JoinHandle<T>, key: &str, owner: &str, on: &mut impl ConnectionLike) -> RedisResult<()> {
    loop {
        // A 0 of a wait that has not ended means that its command has not arrived at the server yet.
        let has_ended = wait.is_finished();
        let found: u32 = cmd("LOCK.CANCEL").arg(key).arg(owner).arg("RELEASE").query_async(on).await?;
        if found > 0 || has_ended {
            return Ok(());
        }
    }
}
