//! What a reader of the results must know of the way to the server, and whoever starts a sweep of its secrets.

use super::config::{BaseUrl, Server};
use super::key::KeySource;
use super::proxy::OnTheWay;
use super::tls::Tls;
use crate::caveat::Caveat;
use anyhow::{Result, bail};
use std::path::PathBuf;

impl Server {
    /// The table for a server that is none of the plan's: whom we trust and how the network is reached, and nothing of who we are, nor
    /// that anything goes unverified.
    pub fn elsewhere(&self, base: BaseUrl) -> Self {
        Self {
            tls: self.tls.elsewhere(),
            proxy: self.proxy.clone(),
            connect_timeout: self.connect_timeout,
            ..Self::new(super::config::Target::Url(base))
        }
    }

    /// The files that it names for TLS and for the key.
    pub fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let key = match &mut self.key {
            Some(KeySource::File(path)) => Some(path),
            _ => None,
        };
        let Tls { ca, client_cert, client_key, .. } = &mut self.tls;
        [ca.as_mut(), client_cert.as_mut(), client_key.as_mut(), key].into_iter().flatten()
    }

    /// The proxies between this machine and the servers, each once.
    pub fn proxies(&self) -> Vec<OnTheWay> {
        let mut all: Vec<OnTheWay> = Vec::new();
        for proxy in self.target.urls().iter().filter_map(|url| self.proxy.to(url)) {
            if !all.contains(&proxy) {
                all.push(proxy);
            }
        }
        all
    }

    /// Reads what is needed on the way before anything is sent.
    ///
    /// # Errors
    /// A file of `tls` cannot be used, or a proxy speaks no HTTP.
    pub fn check_way(&self) -> Result<()> {
        self.tls.check()?;
        let problem = self.target.urls().iter().find_map(|url| self.proxy.problem(url));
        problem.map_or(Ok(()), |problem| bail!(problem))
    }

    /// Whether anything on the way is reached over TLS: a server, or a proxy before it.
    pub fn any_tls(&self) -> bool {
        let proxied = |url| self.proxy.to(url).is_some_and(|proxy| proxy.url.starts_with("https:"));
        self.target.urls().iter().any(|url| url.is_tls() || proxied(url))
    }

    /// Whether any certificate goes unverified, a server's or a proxy's.
    pub fn unverified(&self) -> bool {
        self.tls.insecure && self.any_tls()
    }

    /// What is to be said in every report.
    pub fn caveats(&self) -> Vec<Caveat> {
        let proxies = self.proxies().into_iter();
        let through = proxies.map(|p| Caveat::Proxy { url: p.url, of_environment: p.of_environment });
        self.unverified().then_some(Caveat::NotVerified).into_iter().chain(through).collect()
    }

    /// What is to be said before anything is sent: of caveats, and of files with secrets that others may read.
    pub fn warnings(&self) -> Vec<String> {
        let caveats = self.caveats().into_iter().map(|c| format!("{} {}", c.text(), c.advice(true)));
        let files = self.key.as_ref().and_then(|key| key.warning()).into_iter().chain(self.tls.warning());
        caveats.chain(files).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> Server {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn what_is_on_the_way_is_told_once() {
        let both = server("urls = [\"http://a.test\", \"http://b.test\"]\nproxy = \"http://proxy:3128\"");
        assert_eq!(
            both.caveats(),
            [Caveat::Proxy { url: "http://proxy:3128".into(), of_environment: false }]
        );
        let insecure = "tls.insecure = true\nproxy = \"none\"";
        assert_eq!(server(&format!("url = \"https://a\"\n{insecure}")).caveats(), [Caveat::NotVerified]);
        assert_eq!(server(&format!("url = \"http://a\"\n{insecure}")).caveats(), [], "nothing to verify");
        let proxied = server("url = \"http://a\"\ntls.insecure = true\nproxy = \"https://p:1\"");
        let through = Caveat::Proxy { url: "https://p:1".into(), of_environment: false };
        assert_eq!(proxied.caveats(), [Caveat::NotVerified, through], "the proxy is not verified");
        let said = server("url = \"https://a\"\ntls.insecure = true\nproxy = \"none\"").warnings();
        assert!(
            said.len() == 1 && said[0].contains("not verified") && said[0].contains("tls.ca"),
            "{said:?}"
        );
    }

    #[test]
    fn others_are_told_whom_we_trust_and_not_who_we_are() {
        let own = server(
            "url = \"https://a\"\napi-key-env = \"KEY\"\nheaders = { x-team = \"t\" }\nproxy = \"http://proxy:1\"\n\
             tls = { ca = \"ca.pem\", client-cert = \"me.pem\" }",
        );
        let other = own.elsewhere("https://b".parse().unwrap());
        assert_eq!((other.tls.ca.clone(), other.tls.client_cert.clone()), (Some("ca.pem".into()), None));
        assert!(other.key.is_none() && other.headers.is_empty() && other.proxy == own.proxy);
        let insecure = server("url = \"https://a\"\ntls.insecure = true");
        assert!(!insecure.elsewhere("https://b".parse().unwrap()).tls.insecure);
    }

    #[cfg(unix)]
    #[test]
    fn files_with_keys_that_others_may_read_are_named() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        for (mode, warned) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            for table in [
                format!("url = \"http://127.0.0.1:1\"\napi-key-file = {path:?}"),
                format!("url = \"http://127.0.0.1:1\"\ntls.client-cert = {path:?}"),
            ] {
                let said = server(&table).warnings();
                assert_eq!(said.len(), usize::from(warned), "{mode:o}: {said:?}");
                assert!(said.iter().all(|s| s.contains(&path) && s.contains("chmod 600")), "{said:?}");
            }
        }
    }
}
