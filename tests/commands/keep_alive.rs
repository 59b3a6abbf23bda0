//! A server that closes each connection after its answer, as llama-server does after streams, although no head says so.

use crate::common::{goodput, plan, result};
use crate::secrets::serve::{Closing, closing};
use tempfile::tempdir;

fn gets_a_connection_for_each_request(when: Closing) {
    let dir = tempdir().unwrap();
    let address = closing(when);
    let plan = plan(dir.path(), &format!("url = \"http://{address}\""), "rates = [20]");
    let run = dir.path().join("run");
    goodput().arg("sweep").arg(&plan).arg("--out").arg(&run).assert().code(predicates::ord::ne(1));
    let result = result(&run);
    assert!(result["caveats"].to_string().contains("closes-connections"), "{when:?}: {}", result["caveats"]);
    let step = &result["steps"][0];
    assert_eq!((&step["failed"], &step["resets"]), (&0.into(), &0.into()), "{when:?}: {step}");
    assert!(step["completed"].as_u64() > Some(20), "{when:?}: {step}");
}

#[test]
fn a_server_that_closes_connections_gets_one_for_each_request() {
    gets_a_connection_for_each_request(Closing::AtOnce);
}

/// The first answers of such a server break a request each: that is what tells of it.
#[test]
fn requests_that_meet_the_end_of_a_connection_tell_of_it() {
    gets_a_connection_for_each_request(Closing::OnNextRequest);
}
