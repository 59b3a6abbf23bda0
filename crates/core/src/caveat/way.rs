//! What lies between the client and the server.

use super::Caveat;

/// What is the case, as a sentence; empty for a caveat about anything else.
pub(super) fn text(caveat: &Caveat) -> String {
    match caveat {
        Caveat::NotVerified => {
            "The server's certificate is not verified (server.tls.insecure = true): anyone on the way can read what is sent, the key \
             with it, and answer in the server's place."
                .into()
        }
        Caveat::Proxy { url, of_environment } => format!(
            "Requests go through the proxy {url}{}: its time is part of every latency, and its limits may be those that are found.",
            if *of_environment { ", which the environment names" } else { "" }
        ),
        _ => String::new(),
    }
}

/// What to do about it.
pub(super) const fn advice(caveat: &Caveat) -> &'static str {
    match caveat {
        Caveat::NotVerified => "Name the authority of its certificate: server.tls.ca = \"ca.pem\".",
        _ => "To measure the server alone go past it: server.proxy = \"none\", or NO_PROXY.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_says_what_to_do() {
        let through = |of_environment| Caveat::Proxy { url: "http://proxy:3128".into(), of_environment };
        for (caveat, say, advice) in [
            (Caveat::NotVerified, "is not verified", "server.tls.ca"),
            (through(true), "through the proxy http://proxy:3128, which the environment names", "NO_PROXY"),
            (through(false), "through the proxy http://proxy:3128: its time", "server.proxy"),
        ] {
            assert!(caveat.text().contains(say) && caveat.advice(true).contains(advice), "{}", caveat.text());
        }
    }
}
