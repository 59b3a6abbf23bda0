//! The words of caveats on the network route to the server.

use super::CaveatWords;
use goodput_core::caveat::RouteCaveat;

pub(super) fn words(caveat: &RouteCaveat) -> CaveatWords {
    match caveat {
        RouteCaveat::NotVerified => CaveatWords::new(
            "The server's certificate is not verified (server.tls.insecure = true): anyone on the way can read what is sent, the key \
             with it, and answer in the server's place.",
            "Name the authority of its certificate: server.tls.ca = \"ca.pem\".",
        ),
        RouteCaveat::Proxy { url, of_environment } => CaveatWords::new(
            format!(
                "Requests go through the proxy {url}{}: its delay is part of every latency, and its limits may be the ones that are measured.",
                if *of_environment { ", which the environment names" } else { "" }
            ),
            "To measure the server alone, bypass it: server.proxy = \"none\", or NO_PROXY.",
        ),
    }
}
