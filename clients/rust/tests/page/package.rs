use std::time::Duration;

use lock_so::sync::Locks;

pub fn report(client: &redis::Client) -> lock_so::Result<()> {
    let lock = Locks::new(client).lock("report");
    let guard = lock.lock_for(Duration::from_secs(10))?; // NotAcquired: another client works on it
    println!("working");
    guard.release() // NotHeld: it was lost meanwhile
}
