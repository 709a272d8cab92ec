//! A proxy that can delay connections, and swallow what is sent, without closing anything.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[derive(Clone)]
pub struct Wire(Arc<Inner>);

struct Inner {
    own: u16,
    to: AtomicU16,
    delay_ms: AtomicU64,
    is_silent: AtomicBool,
    refuses: AtomicBool,
    links: Mutex<Vec<Link>>,
}

#[derive(Clone)]
struct Link {
    ours: Arc<TcpStream>,
    theirs: Arc<TcpStream>,
    is_silent: Arc<AtomicBool>,
}

impl Wire {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let inner = Inner {
            own: listener.local_addr().unwrap().port(),
            to: AtomicU16::new(port),
            delay_ms: AtomicU64::new(0),
            is_silent: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            links: Mutex::default(),
        };
        let wire = Self(Arc::new(inner));
        let accepting = wire.clone();
        thread::spawn(move || {
            for ours in listener.incoming().map_while(Result::ok) {
                if accepting.0.refuses.load(Ordering::SeqCst) {
                    continue;
                }
                let wire = accepting.clone();
                thread::spawn(move || wire.link(ours));
            }
        });
        wire
    }

    pub fn port(&self) -> u16 {
        self.0.own
    }

    pub fn client(&self) -> redis::Client {
        redis::Client::open(format!("redis://127.0.0.1:{}/", self.port())).unwrap()
    }

    /// New connections are forwarded only after this time.
    pub fn delay(&self, time: Duration) {
        self.0.delay_ms.store(time.as_millis() as u64, Ordering::SeqCst);
    }

    /// Swallows what is sent on the connections that exist.
    pub fn swallow(&self) {
        self.0.links.lock().unwrap().iter().for_each(|link| link.is_silent.store(true, Ordering::SeqCst));
    }

    /// Swallows what is sent on new connections.
    pub fn swallow_new(&self) {
        self.0.is_silent.store(true, Ordering::SeqCst);
    }

    /// Closes new connections at once.
    pub fn refuse(&self, refuses: bool) {
        self.0.refuses.store(refuses, Ordering::SeqCst);
    }

    /// Closes the connections that exist.
    pub fn cut(&self) {
        self.0.links.lock().unwrap().drain(..).for_each(|link| drop(link.ours.shutdown(Shutdown::Both)));
    }

    /// Closes them on the side of the server only.
    pub fn cut_server(&self) {
        self.swallow();
        self.0.links.lock().unwrap().iter().for_each(|link| drop(link.theirs.shutdown(Shutdown::Both)));
    }

    pub fn connections(&self) -> usize {
        self.0.links.lock().unwrap().len()
    }

    /// New connections lead there.
    pub fn lead_to(&self, port: u16) {
        self.0.to.store(port, Ordering::SeqCst);
    }

    fn link(&self, ours: TcpStream) {
        thread::sleep(Duration::from_millis(self.0.delay_ms.load(Ordering::SeqCst)));
        let is_silent = Arc::new(AtomicBool::new(self.0.is_silent.load(Ordering::SeqCst)));
        let theirs = TcpStream::connect(("127.0.0.1", self.0.to.load(Ordering::SeqCst))).unwrap();
        ours.set_nodelay(true).unwrap();
        theirs.set_nodelay(true).unwrap();
        let link = Link { ours: Arc::new(ours), theirs: Arc::new(theirs), is_silent };
        self.0.links.lock().unwrap().push(link.clone());
        let back = link.clone();
        thread::spawn(move || copy(&back.theirs, &back.ours, &back.is_silent));
        copy(&link.ours, &link.theirs, &link.is_silent);
        let _ = link.theirs.shutdown(Shutdown::Both);
        self.0.links.lock().unwrap().retain(|other| !Arc::ptr_eq(&other.ours, &link.ours));
    }
}

/// Ends without closing `to` if it is silent.
fn copy(mut from: &TcpStream, mut to: &TcpStream, is_silent: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !is_silent.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    if !is_silent.load(Ordering::SeqCst) {
        let _ = to.shutdown(Shutdown::Both);
    }
}
