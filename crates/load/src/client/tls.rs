//! Reads the files of the plan's `[server.tls]` table, and explains problems with them.

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine as _;
use goodput_plan::server::tls::Tls;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error as TlsError, RootCertStore};
use std::path::Path;
use std::{fmt, fs};

/// Maximum file size in bytes. A bundle of all root certificates of the web is about 0.2 MB.
const LARGEST: u64 = 16 << 20;

/// The contents of the TLS files.
#[derive(Clone, Default)]
pub(super) struct Loaded {
    pub(super) roots: Vec<reqwest::Certificate>,
    pub(super) identity: Option<reqwest::Identity>,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = if self.identity.is_some() { ", and a certificate of the client" } else { "" };
        write!(f, "Loaded({} authorities{own})", self.roots.len())
    }
}

/// Reads the files of the plan and checks that they can be used.
///
/// # Errors
/// A file cannot be used; with its key in the plan, its name, and the problem.
pub(crate) fn check(tls: &Tls) -> Result<()> {
    load(tls).map(drop)
}

pub(super) fn load(tls: &Tls) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    if let Some(path) = &tls.ca {
        loaded.roots = roots(path).with_context(|| format!("server.tls.ca = {path:?}"))?;
    }
    if let Some(cert) = &tls.client_cert {
        loaded.identity = Some(identity(cert, tls.client_key.as_deref())?);
    }
    Ok(loaded)
}

/// The contents of a PEM file.
struct Pem {
    text: Vec<u8>,
    certificates: Vec<CertificateDer<'static>>,
    keys: Vec<PrivateKeyDer<'static>>,
}

impl Pem {
    // No error quotes the file, because it may contain a private key.
    fn read(path: &Path) -> Result<Self> {
        let found = fs::metadata(path).context("the file cannot be read")?;
        ensure!(found.is_file(), "that is no file");
        ensure!(
            found.len() <= LARGEST,
            "the file has {} MB: a file of certificates is smaller",
            found.len() >> 20
        );
        let text = fs::read(path).context("the file cannot be read")?;
        let (mut certificates, mut keys) = (Vec::new(), Vec::new());
        let mut rest = &text[..];
        while let Some((kind, data)) = pem::from_buf(&mut rest).map_err(|e| broken(&e))? {
            match kind {
                SectionKind::Certificate => certificates.push(data.into()),
                SectionKind::PrivateKey => keys.push(PrivateKeyDer::Pkcs8(data.into())),
                SectionKind::RsaPrivateKey => keys.push(PrivateKeyDer::Pkcs1(data.into())),
                SectionKind::EcPrivateKey => keys.push(PrivateKeyDer::Sec1(data.into())),
                _ => {}
            }
        }
        Ok(Self { text, certificates, keys })
    }

    /// Explains why `what` is missing in the file.
    fn lacks(&self, what: &str) -> anyhow::Error {
        let holds = |part: &[u8]| memchr::memmem::find(&self.text, part).is_some();
        if what == "key" && (holds(b"BEGIN ENCRYPTED PRIVATE KEY") || holds(b"Proc-Type: 4,ENCRYPTED")) {
            return anyhow!(
                "its key is encrypted with a passphrase, which nobody can be asked for: write it without one, `openssl pkey -in \
                 FILE -out PLAIN`, into a file that only you can read"
            );
        }
        if self.text.is_empty() {
            return anyhow!("the file is empty");
        }
        // DER forms of a certificate, a key and a PKCS #12 archive all begin with the tag of a sequence.
        if self.text[0] == 0x30 {
            return anyhow!(
                "the file is not PEM, which begins with -----BEGIN: `openssl x509 -inform der -in FILE` writes a certificate as PEM, \
                 `openssl pkcs12 -in FILE -nodes` what an archive holds"
            );
        }
        if !holds(b"-----BEGIN") {
            return anyhow!("the file is not PEM: nothing in it begins with -----BEGIN");
        }
        let other = match (what, self.certificates.is_empty(), self.keys.is_empty()) {
            ("key", false, _) => ", only certificates",
            ("certificate", _, false) => ", only a key",
            _ => "",
        };
        anyhow!("the file has no {what}{other}")
    }
}

fn broken(e: &pem::Error) -> anyhow::Error {
    match e {
        pem::Error::MissingSectionEnd { .. } => {
            anyhow!("the file is no whole PEM: a part of it has no -----END line")
        }
        pem::Error::SectionTooLarge => anyhow!("the file has a part that is larger than any certificate"),
        _ => anyhow!("the file is no sound PEM: a part of it is no base64"),
    }
}

fn roots(path: &Path) -> Result<Vec<reqwest::Certificate>> {
    let pem = Pem::read(path)?;
    if pem.certificates.is_empty() {
        return Err(pem.lacks("certificate"));
    }
    let mut store = RootCertStore::empty();
    let certificate = |(i, der): (usize, CertificateDer<'static>)| {
        let bytes = reqwest::Certificate::from_der(&der);
        store.add(der).map_err(|_| anyhow!("the file's certificate number {} is none of X.509", i + 1))?;
        bytes.with_context(|| format!("the file's certificate number {} cannot be used", i + 1))
    };
    pem.certificates.into_iter().enumerate().map(certificate).collect()
}

/// Builds the client's identity from its certificate and key, in one file or two.
fn identity(cert: &Path, key: Option<&Path>) -> Result<reqwest::Identity> {
    let of_cert = || format!("server.tls.client-cert = {cert:?}");
    let shown = Pem::read(cert).with_context(of_cert)?;
    if shown.certificates.is_empty() {
        return Err(shown.lacks("certificate").context(of_cert()));
    }
    let (own, of_key) = match key {
        Some(path) => {
            let of_key = format!("server.tls.client-key = {path:?}");
            if !shown.keys.is_empty() && path != cert {
                bail!(
                    "{}: the file holds a key as well: leave client-key out, or take the key out of this file",
                    of_cert()
                );
            }
            (Pem::read(path).with_context(|| of_key.clone())?, of_key)
        }
        None => (Pem::read(cert).with_context(of_cert)?, of_cert()),
    };
    let key = match &own.keys[..] {
        [only] => only.clone_key(),
        [] if key.is_none() => {
            let hint = "write client-key = \"key.pem\" where the key stands in a file of its own";
            return Err(own.lacks("key").context(hint).context(of_key));
        }
        [] => return Err(own.lacks("key").context(of_key)),
        several => {
            bail!("{of_key}: the file has {} keys, and only one can be the certificate's", several.len())
        }
    };
    CertifiedKey::from_der(shown.certificates.clone(), key, &default_provider()).map_err(|e| match e {
        TlsError::InconsistentKeys(_) => {
            anyhow!(
                "{of_key}: the key does not fit the certificate in {}: they are not of one pair",
                cert.display()
            )
        }
        TlsError::InvalidCertificate(_) => {
            anyhow!("{}: the file's first certificate is none of X.509", of_cert())
        }
        _ => anyhow!("{of_key}: the key is of a kind that cannot be used here: RSA, ECDSA and Ed25519 can"),
    })?;
    // Rebuilt from the checked sections, so that nothing else in the files has an effect.
    let certificates = shown.certificates.iter().map(|der| section("CERTIFICATE", der));
    let both: String = certificates.chain([own.keys.iter().map(key_section).collect()]).collect();
    reqwest::Identity::from_pem(both.as_bytes())
        .map_err(|_| anyhow!("{}: the certificate and its key cannot be used", of_cert()))
}

fn key_section(key: &PrivateKeyDer<'_>) -> String {
    let label = match key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    section(label, key.secret_der())
}

fn section(label: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

/// The beginning of the texts of [`remedy`], which no other cause has.
pub(super) const REMEDY: &str = "the server's certificate ";

/// How the verifier names a certificate of an authority that a server presents as its own.
const USED_AS_AUTHORITY: &str = "CaUsedAsEndEntity";

/// Explains a failed handshake and its remedy if a certificate was the cause; `None` if the cause is clear enough.
pub(super) fn remedy(e: &TlsError) -> Option<String> {
    const CA: &str = "name the authority that issued it: [server.tls] ca = \"ca.pem\"";
    let TlsError::InvalidCertificate(why) = e else {
        return alert(e);
    };
    let day = |t: &rustls::pki_types::UnixTime| {
        let at = i64::try_from(t.as_secs()).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
        at.map_or_else(String::new, |at| format!(" on {}", at.strftime("%Y-%m-%d")))
    };
    Some(match why {
        CertificateError::ExpiredContext { not_after, .. } => format!(
            "the server's certificate has expired{}: renew it there, and check this machine's clock",
            day(not_after)
        ),
        CertificateError::Expired => {
            "the server's certificate has expired: renew it there, and check this machine's clock".into()
        }
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "the server's certificate is valid only{}: check this machine's clock",
            day(not_before).replace(" on ", " from ")
        ),
        CertificateError::UnknownIssuer => {
            format!("the server's certificate is of an authority that this machine does not know: {CA}")
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = if presented.is_empty() { "no name at all".to_owned() } else { presented.join(", ") };
            format!(
                "the server's certificate is not for {}, but for {names}: write into server.url a name that it is for",
                expected.to_str()
            )
        }
        CertificateError::NotValidForName => {
            "the server's certificate is for another name: write into server.url one that it is for".into()
        }
        CertificateError::Revoked => "the server's certificate was revoked: it needs another one".into(),
        // Tools make self-signed certificates like this by default. The cause is known by its text alone: its type is not public.
        CertificateError::Other(why) if why.to_string().contains(USED_AS_AUTHORITY) => format!(
            "the server's certificate is marked as that of an authority, so that no client may take it as a server's: make one with \
             basicConstraints = CA:FALSE, or let an authority issue it; {CA}"
        ),
        // The platform's own message, or an end-entity certificate used as an authority: a self-signed one.
        other => format!("the server's certificate is not trusted ({other}): {CA}"),
    })
}

/// Explains an alert by which the server itself refused.
fn alert(e: &TlsError) -> Option<String> {
    use rustls::AlertDescription as Alert;
    let TlsError::AlertReceived(alert) = e else { return None };
    const OWN: &str = "[server.tls] client-cert = \"cert.pem\" and client-key = \"key.pem\"";
    match alert {
        Alert::CertificateRequired => {
            Some(format!("{REMEDY}alone is not enough, it wants one of the client: {OWN} name it"))
        }
        Alert::UnknownCA
        | Alert::BadCertificate
        | Alert::CertificateUnknown
        | Alert::CertificateExpired
        | Alert::CertificateRevoked
        | Alert::UnsupportedCertificate
        | Alert::AccessDenied
        | Alert::HandshakeFailure => Some(format!(
            "{REMEDY}was taken, but the server ended the handshake ({e}): where it wants a certificate of the client, {OWN} name one \
             that it trusts"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::{AlertDescription, InvalidMessage};
    use std::sync::Arc;
    use std::time::Duration;

    /// Rows: the cause and its explanation; none if the cause is clear enough.
    #[test]
    fn causes_are_told_apart_with_what_to_do() {
        let at = |s| UnixTime::since_unix_epoch(Duration::from_secs(s));
        let bad = |why| TlsError::InvalidCertificate(why);
        let name = |presented: Vec<String>| CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("a.test").unwrap(),
            presented,
        };
        for (e, says) in [
            (bad(CertificateError::UnknownIssuer), &["does not know", "ca = \"ca.pem\""][..]),
            (
                bad(CertificateError::ExpiredContext { time: at(2), not_after: at(86_400) }),
                &["has expired on 1970-01-02", "clock"],
            ),
            (bad(CertificateError::Expired), &["has expired:"]),
            (
                bad(CertificateError::NotValidYetContext { time: at(2), not_before: at(86_400) }),
                &["valid only from 1970-01-02"],
            ),
            (bad(name(vec!["b.test".into(), "c.test".into()])), &["not for a.test, but for b.test, c.test"]),
            (bad(name(vec![])), &["no name at all"]),
            (
                bad(CertificateError::Other(rustls::OtherError(Arc::new(std::io::Error::other(
                    USED_AS_AUTHORITY,
                ))))),
                &["CA:FALSE", "ca.pem"],
            ),
            (bad(CertificateError::BadSignature), &["is not trusted", "ca.pem"]),
            (TlsError::AlertReceived(AlertDescription::CertificateRequired), &["wants one of the client"]),
            (TlsError::AlertReceived(AlertDescription::UnknownCA), &["ended the handshake", "client-cert"]),
            (TlsError::AlertReceived(AlertDescription::InternalError), &[]),
            (TlsError::InvalidMessage(InvalidMessage::InvalidContentType), &[]),
        ] {
            let said = remedy(&e);
            assert_eq!(said.is_some(), !says.is_empty(), "{e:?}");
            let said = said.unwrap_or_default();
            assert!(says.is_empty() || said.starts_with(REMEDY), "{said}");
            for part in says {
                assert!(said.contains(part), "{e:?}: {said}");
            }
        }
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tls/both.pem");
        let tls = Tls { client_cert: Some(file.into()), ..Tls::default() };
        assert_eq!(
            format!("{:?}", load(&tls).unwrap()),
            "Loaded(0 authorities, and a certificate of the client)"
        );
    }
}
