use std::time::Duration;

use lock_so::sync::Locks;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = redis::Client::open(std::env::var("REDIS_URL")?)?;
    let guard = Locks::new(&client).lock("report").lock_for(Duration::from_secs(10))?;
    println!("working");
    guard.release()?;
    Ok(())
}
