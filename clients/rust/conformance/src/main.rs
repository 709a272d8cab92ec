//! The conformance suite's runner: it executes requests from stdin, and writes its answers to stdout, as lines of JSON.
//! `../../conformance/README.md` has the protocol.

mod tasks;
mod threads;
mod words;

use std::process::exit;

fn main() {
    words::log_to_stderr();
    match std::env::args().nth(1).as_deref() {
        Some("sync") => threads::run(),
        Some("tokio") => tasks::run(),
        _ => {
            eprintln!("usage: runner sync|tokio");
            exit(2);
        }
    }
}
