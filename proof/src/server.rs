//! A web server on loopback, a thread per connection.

use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::{ServerConnection, StreamOwned};

use crate::protocol::Response;
use crate::wire::{self, Raw};

/// What the server does with a request.
#[derive(Debug)]
pub enum Reply {
    /// Answers.
    Answer(Response),
    /// Breaks the connection.
    Reset,
}

/// The server; it accepts connections until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    closed: Arc<AtomicBool>,
}

impl Server {
    /// A server with this handler, which may take its time: every connection has its own thread.
    pub fn start(handler: impl Fn(Raw) -> Reply + Send + Sync + 'static) -> Self {
        Self::accept(move |stream| serve(stream, &handler))
    }

    /// The same with TLS; chain and key are PEM.
    pub fn start_tls(handler: impl Fn(Raw) -> Reply + Send + Sync + 'static, chain: &str, key: &str) -> Self {
        let config = wire::tls(chain, key);
        Self::accept(move |stream| {
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            serve(StreamOwned::new(tls, stream), &handler);
        })
    }

    fn accept(connection: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = Self { address: listener.local_addr().unwrap(), closed: Arc::default() };
        let (closed, connection) = (Arc::clone(&server.closed), Arc::new(connection));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if closed.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let _ = stream.set_nodelay(true);
                let connection = Arc::clone(&connection);
                std::thread::spawn(move || connection(stream));
            }
        });
        server
    }

    /// `127.0.0.1:<port>`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // The thread that accepts wakes up by a connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve<S: Read + Write>(stream: S, handler: &impl Fn(Raw) -> Reply) {
    let mut stream = BufReader::with_capacity(1 << 16, stream);
    let go_on = |stream: &mut BufReader<S>| {
        let _ = stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
    };
    while let Some(request) = wire::read(&mut stream, go_on) {
        match handler(request) {
            Reply::Answer(answer) if wire::write(stream.get_mut(), &answer).is_ok() => {}
            Reply::Answer(_) | Reply::Reset => return,
        }
    }
}
