//! A server that closes each connection after its answer, as llama-server does after streams, although no head says so.

use crate::common::{goodput, plan, result};
use crate::secrets::serve::closing;
use tempfile::tempdir;

#[test]
fn a_server_that_closes_connections_gets_one_for_each_request() {
    let dir = tempdir().unwrap();
    let address = closing();
    let plan = plan(dir.path(), &format!("url = \"http://{address}\""), "rates = [20]");
    let run = dir.path().join("run");
    goodput().arg("sweep").arg(&plan).arg("--out").arg(&run).assert().code(predicates::ord::ne(1));
    let result = result(&run);
    assert!(result["caveats"].to_string().contains("closes-connections"), "{}", result["caveats"]);
    let step = &result["steps"][0];
    assert_eq!((&step["failed"], &step["resets"]), (&0.into(), &0.into()), "{step}");
    assert!(step["completed"].as_u64() > Some(20), "{step}");
}
