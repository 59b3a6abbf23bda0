//! `report.html` in a real browser: it fits at every width, sorts, tells values, keeps the order of the keyboard, turns dark, and prints. The page
//! of a running sweep grows, survives a cut, and becomes the report.
//!
//! Needs Chromium, by `CHROMIUM` or by its usual names: `cargo test --test page -- --ignored`. With `GOODPUT_PAGE_DIR` pictures of every page
//! and its PDF are kept there, to be looked at.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "page/baseline.rs"]
mod baseline;
mod browser;
mod common;
#[path = "page/relay.rs"]
mod relay;

use browser::{Browser, chromium};
use common::{Manner, address_said, goodput, loose, plan, serve, wait_until};
use relay::Relay;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Widths of a desk, a tablet and a phone.
const WIDTHS: [u32; 3] = [1280, 768, 390];

/// Runs a plan in simulated time; returns its page.
fn page(dir: &Path, plan: &str, set: &[&str]) -> PathBuf {
    let run = dir.join(plan);
    let mut sweep = goodput();
    sweep.args(["sweep", plan, "--virtual-time", "--out"]).arg(&run);
    for key in set {
        sweep.args(["--set", key]);
    }
    sweep.assert().code(predicates::ord::lt(4));
    run.join("report.html")
}

/// Makes the report of a run folder of variants that another sweep left; returns its page.
fn reported(dir: &Path, name: &str) -> PathBuf {
    let (from, run) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/runs").join(name), dir.join(name));
    std::fs::create_dir(&run).unwrap();
    for file in
        std::fs::read_dir(from).unwrap().map(Result::unwrap).filter(|f| f.file_type().unwrap().is_file())
    {
        std::fs::copy(file.path(), run.join(file.file_name())).unwrap();
    }
    goodput().arg("report").arg(&run).assert().success();
    run.join("report.html")
}

#[test]
#[ignore = "needs Chromium: cargo test --test page -- --ignored"]
fn the_page_in_a_browser() {
    let program = chromium().expect("Chromium, by CHROMIUM or in PATH");
    let dir = tempfile::tempdir().unwrap();
    let keep = std::env::var_os("GOODPUT_PAGE_DIR").map(PathBuf::from);
    let plans: [(&str, &[&str]); 4] = [
        ("demo-virtual", &[]),
        ("cache-pair", &["search.adaptive.budget=5m"]),
        ("matrix", &[]),
        ("mix", &["search.adaptive.budget=1m"]),
    ];
    let folder = dir.path();
    let mut pages = std::thread::scope(|scope| {
        let made = plans.map(|(plan, set)| scope.spawn(move || page(folder, plan, set)));
        made.map(|one| one.join().unwrap()).to_vec()
    });
    pages.push(reported(folder, "seats"));
    let mut browser = Browser::start(&program);
    for page in &pages {
        let name = page.parent().and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
        fits(&mut browser, page, &name, keep.as_deref());
        prints(&mut browser, &name, keep.as_deref());
    }
    browser.media("light", "");
    browser.open(&pages[0], 1440);
    sorts(&mut browser);
    tells_values(&mut browser);
    turns_dark(&mut browser);
    keeps_the_order_of_the_keyboard(&mut browser, &pages[0]);
}

/// At every width nothing is wider than the window, and the browser has nothing to complain of.
fn fits(browser: &mut Browser, page: &Path, name: &str, keep: Option<&Path>) {
    for width in WIDTHS {
        for scheme in ["light", "dark"] {
            browser.media(scheme, "");
            browser.open(page, width);
            let wide = "document.scrollingElement.scrollWidth - innerWidth";
            assert!(browser.eval(wide).as_f64().unwrap() <= 0.0, "{name} is wider than {width}");
            // Drawing a page of this height takes a second or more.
            let is_compared = name == "demo-virtual";
            if is_compared || keep.is_some() {
                let picture = browser.picture();
                if is_compared {
                    looks_as_before(browser, page, (width, scheme), &picture);
                }
                if let Some(dir) = keep {
                    std::fs::write(dir.join(format!("{name}-{width}-{scheme}.png")), &picture).unwrap();
                }
            }
            shows_charts_whole(browser, name, width);
            browser.eval("document.querySelectorAll('details').forEach(d => { d.open = true })");
            assert!(browser.eval(wide).as_f64().unwrap() <= 0.0, "{name}, unfolded, is wider than {width}");
            if width == WIDTHS[0] {
                let cut = browser.eval(
                    "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1)\
                     .map(e => `${e.scrollWidth} of ${e.clientWidth}: ${e.textContent.slice(0, 60)}`)",
                );
                assert_eq!(cut, serde_json::json!([]), "{name}: a table loses columns at {width}");
            }
            let complaints = browser.complaints();
            assert!(complaints.is_empty(), "{name} at {width}: {complaints:?}");
        }
    }
}

/// The page of the demo looks as its baseline; other colours, and a page without charts, do not.
fn looks_as_before(browser: &mut Browser, page: &Path, (width, scheme): (u32, &str), picture: &[u8]) {
    baseline::hold(browser, &format!("demo-virtual-{width}-{scheme}"), picture);
    if (width, scheme) == (WIDTHS[0], "dark") {
        baseline::differs(browser, "demo-virtual-1280-light", picture);
        browser.eval("document.querySelectorAll('figure').forEach(f => f.remove())");
        let without = browser.picture();
        baseline::differs(browser, "demo-virtual-1280-dark", &without);
        browser.open(page, width);
    }
}

/// The first chart stands directly under the answer, and every chart is as wide as there is room: no part of one is cut off.
fn shows_charts_whole(browser: &mut Browser, name: &str, width: u32) {
    let cut = browser.eval(
        "[...document.querySelectorAll('.plot')].filter(p => p.offsetParent && (p.scrollWidth > p.clientWidth + 1 || \
         p.querySelector('svg').getBoundingClientRect().width < Math.min(p.clientWidth, 600) - 2)).map(p => p.closest('figure').id)",
    );
    assert_eq!(cut, serde_json::json!([]), "{name}: charts are cut at {width}");
    let between = browser.eval(
        "(() => { const heads = [...document.querySelectorAll('main > section > h2')].map(h => h.textContent); \
         const first = document.querySelector('figure').closest('main > section').querySelector('h2').textContent; \
         return heads.slice(0, heads.indexOf(first) + 1) })()",
    );
    let between: Vec<&str> = between.as_array().unwrap().iter().map(|h| h.as_str().unwrap()).collect();
    let under = [
        &["Question", "Answer", "Charts"][..],
        &["Answer", "Charts"],
        &["Question", "Comparison"],
        &["Question", "Variants", "Comparison"],
    ];
    assert!(under.contains(&&between[..]), "{name}: the first chart comes after {between:?}");
}

/// On paper of A4 nothing reaches beyond the margin, no chart is higher than a page, all is unfolded, and the colours are light.
fn prints(browser: &mut Browser, name: &str, keep: Option<&Path>) {
    let pdf = browser.print();
    let text = String::from_utf8_lossy(&pdf);
    let pages = text.matches("/Type /Page").count() - text.matches("/Type /Pages").count();
    assert!((2..=60).contains(&pages), "{name}: {pages} pages");
    if let Some(dir) = keep {
        std::fs::write(dir.join(format!("{name}.pdf")), &pdf).unwrap();
    }
    browser.media("dark", "print");
    // 182 mm between the margins.
    browser.size(688);
    if name == "demo-virtual" {
        let picture = browser.picture();
        baseline::hold(browser, &format!("{name}-print"), &picture);
    }
    let cut = browser.eval(
        "dispatchEvent(new Event('beforeprint')); \
         [...document.querySelectorAll('main *')].filter(e => !e.closest('.heard, caption, svg') && e.getBoundingClientRect().right > 690)\
         .map(e => e.tagName + ' ' + e.className + ' ' + e.textContent.slice(0, 40))",
    );
    assert_eq!(cut, serde_json::json!([]), "{name}: cut on paper");
    let heads = "document.querySelectorAll('th button').length";
    assert_eq!(browser.eval(heads), 0, "{name}: a head with a button is not repeated on the next page");
    let tall = browser.eval("[...document.querySelectorAll('figure')].filter(f => f.getBoundingClientRect().height > 1000).map(f => f.id)");
    assert_eq!(tall, serde_json::json!([]), "{name}: higher than a page");
    let folded = browser.eval("document.querySelectorAll('details:not([open])').length");
    assert_eq!(folded, serde_json::json!(0), "{name}: folded on paper");
    let ground = browser.eval("getComputedStyle(document.body).backgroundColor");
    assert_eq!(ground, serde_json::json!("rgb(255, 255, 255)"), "{name}");
    browser.eval("dispatchEvent(new Event('afterprint'))");
    assert!(browser.eval(heads).as_u64() > Some(0), "{name}: sorting is back");
}

/// Clicks on a head sort by value, upwards and then downwards.
fn sorts(browser: &mut Browser) {
    let click = |browser: &mut Browser| {
        browser.eval(
            "(() => { const head = [...document.querySelectorAll('#steps th')].find(h => h.textContent.startsWith('TTFT p99')); \
             head.querySelector('button').click(); const at = head.cellIndex; \
             return [head.getAttribute('aria-sort'), [...head.closest('table').tBodies[0].rows].map(r => r.cells[at].dataset.v ?? null)] })()",
        )
    };
    for (sort, sign) in [("ascending", 1.0), ("descending", -1.0)] {
        let said = click(browser);
        assert_eq!(said[0], sort);
        let values: Vec<Option<f64>> =
            said[1].as_array().unwrap().iter().map(|v| v.as_str().map(|v| v.parse().unwrap())).collect();
        let known: Vec<f64> = values.iter().copied().flatten().collect();
        assert!(known.len() > 3 && known.windows(2).all(|w| sign * w[0] <= sign * w[1]), "{values:?}");
        assert!(
            values[..known.len()].iter().all(Option::is_some),
            "what has no value stands last: {values:?}"
        );
    }
}

/// A chart tells its values by arrow keys and by pointer, and stops at Escape.
fn tells_values(browser: &mut Browser) {
    let tip =
        "(() => { const t = document.querySelector('.plot .tip'); return t.hidden ? '' : t.textContent })()";
    let said = "document.getElementById('said').textContent";
    let is_figure = |v: &serde_json::Value| v.as_str().unwrap().chars().any(|c| c.is_ascii_digit());
    browser.eval("document.querySelector('.plot').focus()");
    browser.press("ArrowRight", 39);
    let first = browser.eval(tip);
    assert!(is_figure(&first), "{first}");
    assert!(is_figure(&browser.eval(said)), "it is read aloud");
    browser.press("End", 35);
    assert_ne!(browser.eval(tip), first, "another point");
    browser.press("Escape", 27);
    assert_eq!(browser.eval(tip), "");
    browser.eval("document.activeElement.blur(); document.querySelector('.plot').scrollIntoView()");
    let at = browser.eval(
        "new Promise(done => requestAnimationFrame(() => setTimeout(() => { \
         const b = [...document.querySelectorAll('.plot circle.hint')][0].getBoundingClientRect(); \
         done([(b.left + b.right) / 2, (b.top + b.bottom) / 2]) }, 800)))",
    );
    browser.point(at[0].as_f64().unwrap(), at[1].as_f64().unwrap());
    assert!(is_figure(&browser.eval(tip)), "under the pointer, at {at}");
    assert_eq!(
        browser.eval("document.querySelectorAll('.hint title').length"),
        0,
        "one kind of tip at a time"
    );
}

/// The system's colours hold until somebody chooses, charts included.
fn turns_dark(browser: &mut Browser) {
    let colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.plot svg rect')).fill]";
    let light = browser.eval(colours);
    browser.media("dark", "");
    let dark = browser.eval(colours);
    assert!(light[0] != dark[0] && light[1] != dark[1], "{light} {dark}");
    browser.eval("document.getElementById('theme').click()");
    assert_eq!(browser.eval(colours), light, "light by choice");
    browser.eval("document.getElementById('theme').click()");
    assert_eq!(browser.eval(colours), dark);
    browser.media("light", "");
    assert_eq!(browser.eval(colours), dark, "dark by choice");
}

/// Tab goes through the page in its order: the link past the head, the colours, the contents, charts, tables that sort and those that scroll.
fn keeps_the_order_of_the_keyboard(browser: &mut Browser, page: &Path) {
    browser.open(page, 390);
    browser.eval(
        "document.querySelectorAll('details').forEach(d => { d.open = true }); window.before = null; \
         new Promise(done => setTimeout(done, 100))",
    );
    let focused = "(() => { const e = document.activeElement; \
         const after = !window.before || !!(window.before.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING); \
         window.before = e; const b = e.getBoundingClientRect(); \
         return e === document.body ? null : [e.className || e.id || e.tagName, after, b.width > 0] })()";
    let mut seen = Vec::new();
    for _ in 0..400 {
        browser.press("Tab", 9);
        let at = browser.eval(focused);
        if at.is_null() || (seen.len() > 3 && at[0] == "skip") {
            break;
        }
        assert_eq!((&at[1], &at[2]), (&true.into(), &true.into()), "{at} after {:?}", seen.last());
        seen.push(at[0].as_str().unwrap().to_owned());
    }
    assert_eq!(seen[..2], ["skip", "theme"], "{seen:?}");
    let first = |name: &str| seen.iter().position(|s| s == name);
    let order = ["A", "plot", "BUTTON", "scroll"].map(first);
    assert!(order.iter().all(Option::is_some), "{seen:?}");
    assert!(order[0] < order[1], "the contents, then the charts: {seen:?}");
    assert!(seen.iter().filter(|s| *s == "plot").count() >= 3, "{seen:?}");
}

/// Values of the page of a running sweep: the text of the connection, the number of marks and of steps, the part of the step, and rows of misses.
const WATCHED: &str = "[document.getElementById('link').textContent, document.querySelectorAll('#latency svg > .meets, #latency svg > .undecided').length, \
     document.querySelectorAll('#steps tr').length, document.getElementById('part').value, document.querySelectorAll('#misses tr').length]";

#[test]
#[ignore = "needs Chromium: cargo test --test page -- --ignored"]
fn a_running_sweep_in_a_browser() {
    let program = chromium().expect("Chromium, by CHROMIUM or in PATH");
    let dir = tempfile::tempdir().unwrap();
    let keep = std::env::var_os("GOODPUT_PAGE_DIR").map(PathBuf::from);
    let url = format!("url = \"http://{}\"", serve(Manner::Plain));
    let file = plan(dir.path(), &url, "rates = [20, 30, 40, 50, 60, 70]");
    loose(&file);
    let text = std::fs::read_to_string(&file).unwrap();
    // Long enough for a busy machine to look at it, and a limit that reports have.
    let named = text
        .replace("measure = \"1s\"", "measure = \"4s\"")
        .replace("p10", "p50")
        .replace("\"test\"", "\"<img src=x onerror=alert(1)>\"");
    std::fs::write(&file, named).unwrap();
    let mut browser = Browser::start(&program);
    let mut sweep = Command::new(assert_cmd::cargo::cargo_bin!("goodput"))
        .args(["sweep", "--no-charts", "--listen", "127.0.0.1:0", "--out"])
        .args([&dir.path().join("run"), &file])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (address, drain) = address_said(&mut sweep, "page of the sweep: ");
    let relay = Relay::start(&address);
    browser.open_url(&format!("http://{}/", relay.address), 1280);
    wait_until("a step is on the page", || {
        let seen = browser.eval(WATCHED);
        seen[1].as_u64() > Some(0) && seen[2].as_u64() > Some(0) && seen[4].as_u64() > Some(0)
    });
    let complaints: Vec<String> =
        browser.complaints().into_iter().filter(|c| !c.contains(&relay.address)).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    assert_eq!(browser.eval("document.querySelectorAll('img').length"), 0, "names are text");
    assert_eq!(browser.eval("document.getElementById('name').textContent"), "<img src=x onerror=alert(1)>");
    for (width, scheme) in [(1280, "light"), (390, "light"), (1280, "dark")] {
        browser.media(scheme, "");
        browser.size(width);
        browser.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
        let wide = browser.eval("document.scrollingElement.scrollWidth - innerWidth");
        assert!(wide.as_f64().unwrap() <= 0.0, "wider than {width}");
        if let Some(dir) = &keep {
            std::fs::write(dir.join(format!("watch-{width}-{scheme}.png")), browser.picture()).unwrap();
        }
    }
    relay.cut(true);
    wait_until("the cut is told", || browser.eval(WATCHED)[0].as_str().unwrap().contains("trying again"));
    relay.cut(false);
    wait_until("the page is back", || browser.eval(WATCHED)[0] == "live");
    wait_until("the report takes the place of the page", || {
        browser.holds(
            "location.pathname == '/report.html' && document.querySelectorAll('#main .card').length == 1",
        )
    });
    assert_eq!(sweep.wait().unwrap().code(), Some(0));
    drain.join().unwrap();
}
