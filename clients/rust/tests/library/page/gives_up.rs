use std::time::Duration;

use redis::{aio::MultiplexedConnection, cmd, RedisResult};
use tokio::{task::JoinHandle, time::timeout};

/// `wait` is a task with the acquiring command; `other` is another connection.
pub async fn within(
    time: Duration,
    mut wait: JoinHandle<RedisResult<Option<u32>>>,
    (key, owner): (&str, &str),
    other: &mut MultiplexedConnection,
) -> RedisResult<Option<u32>> {
    if let Ok(ended) = timeout(time, &mut wait).await {
        return ended.expect("the task has not panicked");
    }
    loop {
        // A 0 of a wait that is not over means that its command has not come to the server yet.
        let is_over = wait.is_finished();
        let taken_back: u32 = cmd("LOCK.CANCEL").arg(key).arg(owner).arg("RELEASE").query_async(other).await?;
        if taken_back > 0 || is_over {
            return Ok(None);
        }
    }
}
