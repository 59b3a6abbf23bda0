use super::schema;
use crate::fixture;
use crate::fixture::json_schema::Validator;
use crate::rundir::documentation::everything;
use crate::rundir::json::result;
use serde_json::Value;

#[test]
fn every_result_is_described_in_full() {
    let schema = schema(goodput_core::output_schema::generator());
    std::fs::write("/tmp/result.schema.json", serde_json::to_string_pretty(&schema).unwrap()).unwrap();
    let (open, closed) = (Validator::new(&schema), Validator::closed(&schema));
    let mut n = 0;
    for (case, run) in fixture::cases().into_iter().chain([("everything", everything())]) {
        let value: Value = serde_json::from_str(&result(&run).to_string()).unwrap();
        for (name, v) in [("open", &open), ("closed", &closed)] {
            if let Some(e) = v.error(&value) {
                n += 1;
                eprintln!("==== {case} {name}: {}", e.chars().take(3000).collect::<String>());
            }
        }
    }
    assert_eq!(n, 0);
}
