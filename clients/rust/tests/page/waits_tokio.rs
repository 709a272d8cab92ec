use redis::{aio::MultiplexedConnection, AsyncConnectionConfig, Client, RedisResult};

/// A connection for one wait at a time.
pub async fn for_waiting(client: &Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}
