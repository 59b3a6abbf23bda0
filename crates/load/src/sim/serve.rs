//! The simulated server on a socket: as a command (`serve`), or within the process on a separate thread ([`Embedded`]).

use crate::load::pacer::Clock;
use crate::sim::null::{self, Listener, Settings};
use crate::sim::router::{fault_injector, with_faults};
use crate::sim::socket;
use anyhow::Context;
use goodput_engine::config::{Engine, Simulated};
use std::{future::Future, net::SocketAddr, thread, time::Duration};
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::oneshot,
};

/// Time that open streams have to finish after shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum number of connections waiting to be accepted: the burst of a whole step must not be dropped.
const BACKLOG: u32 = 4096;

/// Serves until `shutdown` completes, then lets open streams finish for at most five seconds. For the null engine, the
/// [`null`] server is used, which models nothing, unless faults are to be injected.
///
/// # Errors
/// The server does not start (see [`Simulated::check_startup`]).
pub async fn serve(
    sim: &Simulated,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    sim.check_startup().map_err(anyhow::Error::msg)?;
    if sim.engine == Engine::Null && sim.reasoning.is_none() && sim.faults.is_empty() {
        let (model, max_model_len) = (sim.model.clone(), sim.max_model_len);
        let settings = Settings { model, max_model_len, ..Settings::default() };
        null::serve(settings, Listener::Tcp(listener), shutdown).await;
    } else {
        let faults = fault_injector(sim);
        socket::serve(with_faults(sim, faults.clone(), Clock::Real), faults, listener, shutdown, GRACE).await;
    }
    Ok(())
}

/// A simulated server on a free port of the loopback address, on a separate thread. Dropping it stops it and breaks
/// open streams.
#[derive(Debug)]
pub struct Embedded {
    /// URL of the server, such as `http://127.0.0.1:41234`.
    pub url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Embedded {
    /// Starts the server, which accepts connections when this returns.
    ///
    /// # Errors
    /// The server does not start (see [`Simulated::check_startup`]), or the operating system refuses a thread, a runtime or a
    /// port.
    pub fn start(sim: &Simulated) -> anyhow::Result<Self> {
        sim.check_startup().map_err(anyhow::Error::msg)?;
        let sim = sim.clone();
        Self::on_thread(async move |listener| serve(&sim, listener, std::future::pending()).await)
    }

    /// Starts a null server, which accepts connections when this returns.
    ///
    /// # Errors
    /// As with [`Embedded::start`].
    pub fn null(settings: Settings) -> anyhow::Result<Self> {
        Self::on_thread(async move |listener| {
            null::serve(settings, Listener::Tcp(listener), std::future::pending()).await;
            Ok(())
        })
    }

    /// Starts a thread with a listener, and runs `serve` on it.
    fn on_thread(
        serve: impl AsyncFnOnce(TcpListener) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, bound) = std::sync::mpsc::channel();
        let thread = thread::Builder::new()
            .name("simulated-server".into())
            .spawn(move || run(serve, &ready, stopped))
            .context("failed to start the thread of the simulated server")?;
        let address = bound.recv().context("the simulated server ended before it listened")??;
        Ok(Self { url: format!("http://{address}"), stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // Dropping the sender is the signal.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs the thread: a runtime with one worker, since the engine is one task and the client needs the other cores.
fn run(
    serve: impl AsyncFnOnce(TcpListener) -> anyhow::Result<()>,
    ready: &std::sync::mpsc::Sender<anyhow::Result<SocketAddr>>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(error).context("failed to start the runtime of the simulated server"));
            return;
        }
    };
    runtime.block_on(async {
        let listener = match loopback() {
            Ok((listener, address)) => {
                let _ = ready.send(Ok(address));
                listener
            }
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        tokio::select! {
            ended = serve(listener) => if let Err(error) = ended {
                tracing::error!("{error:#}");
            },
            _ = stopped => {}
        }
    });
    // The runtime is dropped here, and every open connection with it.
}

fn loopback() -> anyhow::Result<(TcpListener, SocketAddr)> {
    let bind = || {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = listener.local_addr()?;
        std::io::Result::Ok((listener, address))
    };
    bind().context("failed to listen on 127.0.0.1")
}

/// Listens on an address, with a backlog for a burst of connections.
///
/// # Errors
/// The port is in use, or the address does not belong to this machine.
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Lets a server restart at once, as tokio's own `bind` does.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        time::timeout,
    };

    const ASK: &str = r#"{"messages": [{"content": "x"}], "stream": true, "max_tokens": 1}"#;
    /// Far more than anything here takes.
    const PATIENCE: Duration = Duration::from_secs(20);

    async fn send(url: &str, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
        let length = body.len();
        let text = format!(
            "{head} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn read(mut stream: TcpStream) -> String {
        let mut text = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut text)).await.unwrap().unwrap();
        text
    }

    #[tokio::test]
    async fn an_embedded_server_streams_and_notices_hang_ups() {
        let sim: Simulated = toml::from_str("preset = \"md1\"\nservice = \"30s\"").unwrap();
        let slow = Embedded::start(&sim).unwrap();
        let quick = Embedded::start(&Simulated::named("null").unwrap()).unwrap();
        let answer = read(send(&quick.url, "POST /v1/chat/completions", ASK).await).await;
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("transfer-encoding: chunked"),
            "{answer}"
        );
        assert!(answer.contains("data: [DONE]\n\n\r\n0\r\n\r\n"), "{answer}");

        let open = send(&slow.url, "POST /v1/chat/completions", ASK).await;
        let running = async |n: &str| {
            let line = format!("vllm:num_requests_running{{engine=\"0\",model_name=\"simulated\"}} {n}\n");
            while !read(send(&slow.url, "GET /metrics", "").await).await.contains(&line) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, running("1.0")).await.expect("the request is served");
        drop(open);
        timeout(PATIENCE, running("0.0")).await.expect("the hang-up frees the server");

        // Stopping does not wait for the thirty seconds of an open stream, which breaks off without its last chunk.
        let mut open = send(&slow.url, "POST /v1/chat/completions", ASK).await;
        timeout(PATIENCE, running("1.0")).await.expect("the request is served");
        let url = slow.url.clone();
        drop(slow);
        let mut rest = String::new();
        let _ = timeout(PATIENCE, open.read_to_string(&mut rest)).await.expect("the connection closes");
        assert!(!rest.contains("[DONE]"), "{rest}");
        assert!(
            TcpStream::connect(url.strip_prefix("http://").unwrap()).await.is_err(),
            "nobody listens any more"
        );
    }

    /// In simulated time, over a socket.
    #[tokio::test(start_paused = true)]
    async fn half_a_head_is_dropped_after_ten_seconds() {
        let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-slow: ";
        for (preset, halves) in [("fixed", &[head, "PO", "PRI * HTTP/2.0\r\n"][..]), ("null", &[head, "PO"])]
        {
            for half in halves {
                let sim = Simulated::named(preset).unwrap();
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                let server = tokio::spawn(async move { serve(&sim, listener, std::future::pending()).await });
                let mut stream = TcpStream::connect(address).await.unwrap();
                let began = tokio::time::Instant::now();
                stream.write_all(half.as_bytes()).await.unwrap();
                let closed = stream.read(&mut [0; 64]).await;
                assert!(closed.is_err() || closed.is_ok_and(|n| n == 0), "{preset}: {half}");
                let took = began.elapsed();
                assert!((9..20).contains(&took.as_secs()), "{preset}, {half}: {took:?}");
                server.abort();
            }
        }
    }

    #[tokio::test]
    async fn a_shutdown_lets_open_streams_finish() {
        let sim: Simulated = toml::from_str("preset = \"fixed\"\nttft = \"100ms\"").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(async move {
            let shutdown = async {
                let _ = stopped.await;
            };
            serve(&sim, listener, shutdown).await
        });
        let mut open = send(&url, "POST /v1/chat/completions", ASK).await;
        let mut head = [0; 15];
        open.read_exact(&mut head).await.unwrap();
        stop.send(()).unwrap();
        assert!(read(open).await.contains("[DONE]"));
        timeout(PATIENCE, server).await.unwrap().unwrap().unwrap();
    }
}
