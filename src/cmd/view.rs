//! `view`: serves finished runs: an index, the report of each, and comparisons of two.

mod folder;

use crate::cli::ViewArgs;
use crate::compare::{self, side};
use crate::load::pages;
use crate::report::runs;
use crate::rundir::files::report_page;
use anyhow::{Context, Result, ensure};
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::middleware::from_fn;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Router, body::Bytes};
use folder::Folder;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The policy of reports, which run their own script: a folder may come from somebody else, so a report gets an origin of its own, which cannot
/// read the other pages, and may load nothing.
const REPORT_POLICY: &str = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                             base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves until Ctrl-C.
pub(crate) fn view(args: &ViewArgs) -> Result<()> {
    let folder = Folder::open(&args.dir)?;
    let (socket, address) = pages::bind(args.listen)?;
    if !address.ip().is_loopback() {
        tracing::warn!(
            "warning: --listen {address}: anyone who reaches this machine there can read the runs, without a password; --listen \
             127.0.0.1:{} keeps them on it",
            address.port()
        );
    }
    tracing::info!("the runs of {}: http://{address}/ (Ctrl-C stops it)", args.dir.display());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start a runtime")?;
    let served = runtime.block_on(async {
        let socket = tokio::net::TcpListener::from_std(socket)
            .with_context(|| format!("failed to serve at {address}"))?;
        let end = CancellationToken::new();
        tokio::select! {
            () = pages::serve(routes(folder, address.ip().is_loopback()), socket, end) => {}
            // If no handler can be installed, the default action ends the process.
            _ = tokio::signal::ctrl_c() => {}
        }
        Ok(())
    });
    // A comparison that is being made is not waited for.
    runtime.shutdown_background();
    served
}

/// The folder, read by one request at a time: reading takes a core, and its cache serves the next.
type Shared = Arc<Mutex<Folder>>;

fn routes(folder: Folder, loopback: bool) -> Router {
    let router = Router::new()
        .route("/", get(index))
        .route("/run/{*name}", get(report))
        .route("/compare", get(compared))
        .with_state(Arc::new(Mutex::new(folder)))
        .layer(from_fn(pages::guarded));
    if loopback { router.layer(from_fn(pages::local_names_only)) } else { router }
}

/// Makes a page on a thread that may block, and adds its policy.
async fn made(shared: Shared, make: impl FnOnce(&mut Folder) -> Result<Page> + Send + 'static) -> Response {
    let work = move || make(&mut shared.lock().unwrap_or_else(PoisonError::into_inner));
    let made =
        tokio::task::spawn_blocking(work).await.context("the page could not be made").and_then(|page| page);
    let page = made
        .or_else(|e| Page::message(StatusCode::UNPROCESSABLE_ENTITY, "This did not work", &format!("{e:#}")));
    let Ok(Page { status, policy, body }) = page else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    (status, [(CONTENT_SECURITY_POLICY, policy)], Html(body)).into_response()
}

/// A page with its status.
struct Page {
    status: StatusCode,
    policy: &'static str,
    body: Bytes,
}

impl Page {
    fn own(html: String) -> Self {
        Self { status: StatusCode::OK, policy: runs::POLICY, body: html.into() }
    }

    fn message(status: StatusCode, title: &str, text: &str) -> Result<Self> {
        Ok(Self { status, ..Self::own(runs::message(title, text, None)?) })
    }

    fn no_such_run() -> Result<Self> {
        Self::message(StatusCode::NOT_FOUND, "There is no such run", "The index lists those that there are.")
    }
}

async fn index(State(shared): State<Shared>) -> Response {
    made(shared, |folder| {
        let entries = folder.entries();
        Ok(Page::own(runs::index(&format!("Runs in {}", folder.name()), &entries)?))
    })
    .await
}

async fn report(State(shared): State<Shared>, Path(name): Path<String>) -> Response {
    made(shared, move |folder| {
        let Some(dir) = folder.find(&name) else { return Page::no_such_run() };
        match report_page(&dir)? {
            Some(page) => Ok(Page { status: StatusCode::OK, policy: REPORT_POLICY, body: page.into() }),
            None => Page::message(
                StatusCode::NOT_FOUND,
                "This run has no report",
                &format!(
                    "To make it: goodput report {}",
                    crate::report::escape::argument(&dir.to_string_lossy())
                ),
            ),
        }
    })
    .await
}

/// The runs to compare, the first of which is the baseline.
#[derive(Default)]
struct Wanted {
    a: String,
    b: String,
    /// Compare them although they did not measure the same thing.
    force: bool,
}

impl Wanted {
    fn of(query: &str) -> Self {
        let mut wanted = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "a" => wanted.a = value.into_owned(),
                "b" => wanted.b = value.into_owned(),
                "force" => wanted.force = value == "true",
                _ => {}
            }
        }
        wanted
    }
}

async fn compared(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Response {
    made(shared, move |folder| {
        let Wanted { a, b, force } = Wanted::of(&query.unwrap_or_default());
        let (Some(first), Some(second)) = (folder.find(&a), folder.find(&b)) else {
            return Page::no_such_run();
        };
        ensure!(first != second, "Choose two different runs.");
        let runs = [first, second].map(|dir| dir.display().to_string());
        let sides = side::sides(&runs)?;
        match compare::compare(&sides, force) {
            Ok(mut comparison) => {
                comparison.asked = runs.into_iter().chain(force.then(|| "--force".into())).collect();
                // The page has the script of reports.
                let html = runs::compared(&comparison)?;
                Ok(Page { status: StatusCode::OK, policy: REPORT_POLICY, body: html.into() })
            }
            Err(e) if force => Err(e),
            Err(e) => Ok(Page::own(runs::message("These runs differ", &format!("{e:#}"), Some((a, b)))?)),
        }
    })
    .await
}
