//! The requests of browsers, and answers to them. Pure.

use tungstenite::handshake::derive_accept_key;

/// A request, as far as it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    target: String,
    /// Names are in small letters.
    fields: Vec<(String, String)>,
}

impl Request {
    /// A request for a resource; `None` for anything else.
    pub fn parse(text: &[u8]) -> Option<Request> {
        let text = std::str::from_utf8(text).ok()?;
        let mut lines = text.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, target, version) = (first.next()?, first.next()?, first.next()?);
        if method != "GET" || !version.starts_with("HTTP/1.") {
            return None;
        }
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_string()))
        };
        let fields = lines.take_while(|line| !line.is_empty()).map(field).collect::<Option<_>>()?;
        Some(Request { target: target.to_string(), fields })
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Without what follows a question mark.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Whether it has the token, compared in the same time whatever it is.
    pub fn has_token(&self, token: &str) -> bool {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let given = query.split('&').find_map(|pair| pair.strip_prefix("token=")).unwrap_or_default();
        let differs = given.bytes().zip(token.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
        given.len() == token.len() && differs == 0
    }

    /// Whether a page of this server asks, or no page at all.
    pub fn is_of_this_site(&self) -> bool {
        match (self.field("origin"), self.field("host")) {
            (None, _) => true,
            (Some(origin), Some(host)) => origin.strip_prefix("http://") == Some(host),
            (Some(_), None) => false,
        }
    }

    /// The key of a WebSocket's handshake; `None` if it is none.
    pub fn key(&self) -> Option<&str> {
        let is = |name: &str, wanted: &str| {
            let mut words = self.field(name).unwrap_or_default().split(',');
            words.any(|word| word.trim().eq_ignore_ascii_case(wanted))
        };
        let speaks = is("upgrade", "websocket") && is("connection", "upgrade") && is("sec-websocket-version", "13");
        self.field("sec-websocket-key").filter(|_| speaks)
    }
}

/// The answer that begins a WebSocket.
pub fn upgrade(key: &str) -> String {
    let accepted = derive_accept_key(key.as_bytes());
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accepted}\r\n\r\n"
    )
}

/// The answer with a page, which may load nothing and connect to this server alone.
pub fn page(html: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n\
         Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self' ws:\r\n\r\n{html}",
        html.len()
    )
}

/// A refusal.
pub fn refusal(what: &str) -> String {
    format!(
        "HTTP/1.1 {what}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{what}\n",
        what.len() + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str, fields: &str) -> Request {
        Request::parse(format!("GET {target} HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn a_token_opens_and_nothing_else() {
        let has = |target: &str| request(target, "").has_token("abc1");
        assert!(has("/?token=abc1") && has("/ws?a=b&token=abc1"));
        for other in ["/", "/?token=", "/?token=abc2", "/?token=abc11", "/?token=abc", "/?Token=abc1", "/token=abc1"] {
            assert!(!has(other), "{other}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_told_apart() {
        let is = |fields: &str| request("/ws", fields).is_of_this_site();
        assert!(is("Host: 127.0.0.1:80\r\n") && is("host: 127.0.0.1:80\r\nORIGIN: http://127.0.0.1:80\r\n"));
        for origin in [
            "http://evil.example",
            "https://127.0.0.1:80",
            "http://127.0.0.1:81",
            "null",
            "http://127.0.0.1:80.evil.example",
        ] {
            assert!(!is(&format!("Host: 127.0.0.1:80\r\nOrigin: {origin}\r\n")), "{origin}");
        }
        assert!(!is("Origin: http://a\r\n"));
    }

    #[test]
    fn handshakes_are_known_and_answered() {
        // The example of RFC 6455, 1.3.
        let fields = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let one = request("/ws?token=x", fields);
        assert_eq!((one.path(), one.key()), ("/ws", Some("dGhlIHNhbXBsZSBub25jZQ==")));
        assert!(upgrade(one.key().unwrap()).contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(request("/ws", "Upgrade: websocket\r\n").key(), None);
        for other in [
            &b"POST / HTTP/1.1\r\n\r\n"[..],
            b"GET /\r\n\r\n",
            b"\xff\r\n\r\n",
            b"",
            b"GET / HTTP/1.1\r\nno field\r\n\r\n",
        ] {
            assert_eq!(Request::parse(other), None);
        }
    }
}
