//! A relay between a browser and a server, which can be cut.

use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The open connections; `None` while the relay is cut.
type Open = Arc<Mutex<Option<Vec<TcpStream>>>>;

/// Passes connections on to a server until the process exits.
pub(crate) struct Relay {
    pub(crate) address: String,
    open: Open,
}

impl Relay {
    /// Starts a relay to `server` on a free port of 127.0.0.1.
    pub(crate) fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let open: Open = Arc::new(Mutex::new(Some(Vec::new())));
        let (server, all) = (server.to_owned(), Arc::clone(&open));
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let mut all = all.lock().unwrap();
                let (Some(all), Ok(far)) = (&mut *all, TcpStream::connect(&server)) else { continue };
                pass(near.try_clone().unwrap(), far.try_clone().unwrap());
                pass(far.try_clone().unwrap(), near.try_clone().unwrap());
                all.extend([near, far]);
            }
        });
        Self { address, open }
    }

    /// Ends all connections and refuses further ones, or accepts them again.
    pub(crate) fn cut(&self, cut: bool) {
        let before = std::mem::replace(&mut *self.open.lock().unwrap(), (!cut).then(Vec::new));
        for stream in before.into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let _ = copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}
