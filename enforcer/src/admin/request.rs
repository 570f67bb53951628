//! What the agent's loop is asked over the admin socket, and what it answers. No I/O.

use super::model::{ContainerView, Done, Explanation, Refusal, Status};
use crate::inventory::Target;
use http::{Method, StatusCode};
use tokio::sync::oneshot;

/// Most bytes of a request's target: a longer one names nothing.
pub const URI_BYTES_MAX: usize = 1024;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// `GET /v1/status`
    Status,
    /// `GET /v1/containers`
    Containers,
    /// `GET /v1/explain?target=pod/NAMESPACE/NAME[:CONTAINER]`
    Explain(Target),
    /// `POST /v1/pause`: answered once every brake is lifted.
    Pause,
    /// `POST /v1/resume`
    Resume,
    /// `POST /v1/reload`: answered once the configuration is read.
    Reload,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Containers`].
    Containers(Vec<ContainerView>),
    /// To [`Request::Explain`].
    Explanation(Box<Explanation>),
    /// To [`Request::Pause`], [`Request::Resume`] and [`Request::Reload`].
    Done(Done),
    /// To any.
    Refused(Refused, Refusal),
}

/// How a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// What is asked makes no sense.
    Malformed,
    /// There is no such thing.
    NoSuch,
    /// It is there, and can't be asked for like this.
    Method,
    /// It has more to it than a request may have.
    TooLong,
    /// The configuration holds an error.
    Configuration,
    /// Not now: too much is asked at once, or the agent ends.
    Busy,
    /// The agent's loop has not answered in time.
    Late,
    /// It went wrong in the agent.
    Failed,
}

impl Refused {
    /// As HTTP has it.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::NoSuch => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Configuration => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Late => StatusCode::GATEWAY_TIMEOUT,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// A request on its way to the agent's loop, and where its answer goes. Whoever asked may be gone by then.
pub type Question = (Request, oneshot::Sender<Reply>);

impl Request {
    /// Its method, path and query.
    pub fn line(&self) -> (Method, String) {
        let route = |route: Route| (route.method(), route.path().to_owned());
        match self {
            Self::Status => route(Route::Status),
            Self::Containers => route(Route::Containers),
            Self::Explain(target) => {
                let (method, path) = route(Route::Explain);
                // Whatever a target is made of may stand in a query as it is.
                (method, format!("{path}?{TARGET}={target}"))
            }
            Self::Pause => route(Route::Pause),
            Self::Resume => route(Route::Resume),
            Self::Reload => route(Route::Reload),
        }
    }

    /// Reads one. An error also names the method that would do, where there is one.
    pub fn parse(
        method: &Method,
        path: &str,
        query: Option<&str>,
    ) -> Result<Self, (Refused, Refusal, Option<Method>)> {
        if path.len() + query.map_or(0, str::len) > URI_BYTES_MAX {
            return Err((Refused::TooLong, refusal("the request's target is too long", ""), None));
        }
        let Some(route) = Route::ALL.into_iter().find(|route| route.path() == path) else {
            let all = Route::ALL.map(|route| format!("{} {}", route.method(), route.path()));
            let todo = format!("there are {}", all.join(", "));
            return Err((Refused::NoSuch, refusal("there is nothing at this path", todo), None));
        };
        if route.method() != *method {
            let todo = format!("ask with {}", route.method());
            return Err((
                Refused::Method,
                refusal("this path takes another method", todo),
                Some(route.method()),
            ));
        }
        let plain = |request| match query {
            None | Some("") => Ok(request),
            Some(_) => Err(malformed("this path takes no query", "leave away what follows the ?")),
        };
        match route {
            Route::Status => plain(Self::Status),
            Route::Containers => plain(Self::Containers),
            Route::Explain => target(query.unwrap_or("")).map(Self::Explain),
            Route::Pause => plain(Self::Pause),
            Route::Resume => plain(Self::Resume),
            Route::Reload => plain(Self::Reload),
        }
    }
}

/// The query's only parameter.
const TARGET: &str = "target";

#[derive(Debug, Clone, Copy)]
enum Route {
    Status,
    Containers,
    Explain,
    Pause,
    Resume,
    Reload,
}

impl Route {
    const ALL: [Self; 6] =
        [Self::Status, Self::Containers, Self::Explain, Self::Pause, Self::Resume, Self::Reload];

    const fn path(self) -> &'static str {
        match self {
            Self::Status => "/v1/status",
            Self::Containers => "/v1/containers",
            Self::Explain => "/v1/explain",
            Self::Pause => "/v1/pause",
            Self::Resume => "/v1/resume",
            Self::Reload => "/v1/reload",
        }
    }

    const fn method(self) -> Method {
        match self {
            Self::Status | Self::Containers | Self::Explain => Method::GET,
            Self::Pause | Self::Resume | Self::Reload => Method::POST,
        }
    }
}

fn target(query: &str) -> Result<Target, (Refused, Refusal, Option<Method>)> {
    const FORM: &str = "ask for /v1/explain?target=pod/NAMESPACE/NAME[:CONTAINER]";
    let text = match query.split_once('=') {
        Some((TARGET, text)) if !text.contains('&') => text,
        _ => return Err(malformed("the query is to be a target and nothing else", FORM)),
    };
    let text = percent_decoded(text).ok_or_else(|| malformed("the target is no text", FORM))?;
    Target::parse(&text).map_err(|error| malformed(error.to_string(), FORM))
}

/// RFC 3986, section 2.1; `None` where it is wrong, or no text.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' { hex(rest.next()?)? << 4 | hex(rest.next()?)? } else { byte });
    }
    String::from_utf8(bytes).ok()
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn malformed(error: impl Into<String>, todo: &str) -> (Refused, Refusal, Option<Method>) {
    (Refused::Malformed, refusal(error, todo), None)
}

/// What is said with a refusal.
pub(super) fn refusal(error: impl Into<String>, todo: impl Into<String>) -> Refusal {
    Refusal { error: error.into(), todo: todo.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(method: &str, uri: &str) -> Result<Request, Refused> {
        let (path, query) = uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)));
        Request::parse(&method.parse().expect("a method"), path, query).map_err(|(refused, ..)| refused)
    }

    fn target(text: &str) -> Target {
        Target::parse(text).expect("a target")
    }

    #[test]
    fn what_is_asked_is_what_is_read() {
        let explain = Request::Explain(target("pod/kube-system/web.0-a:main"));
        for request in [
            Request::Status,
            Request::Containers,
            explain,
            Request::Explain(target("pod/a/b")),
            Request::Pause,
            Request::Resume,
            Request::Reload,
        ] {
            let (method, uri) = request.line();
            assert!(uri.parse::<http::Uri>().is_ok(), "{uri}");
            assert_eq!(parsed(method.as_str(), &uri), Ok(request));
        }
        let escaped = parsed("GET", "/v1/explain?target=pod%2fa%2Fb%3ac");
        assert_eq!(escaped, Ok(Request::Explain(target("pod/a/b:c"))));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (method, uri, refused) in [
            ("GET", "/", Refused::NoSuch),
            ("GET", "/v1/status/", Refused::NoSuch),
            ("GET", "//v1/status", Refused::NoSuch),
            ("GET", "/v1/../v1/status", Refused::NoSuch),
            ("POST", "/v1/status", Refused::Method),
            ("HEAD", "/v1/status", Refused::Method),
            ("GET", "/v1/pause", Refused::Method),
            ("POST", "/v1/pause?now", Refused::Malformed),
            ("GET", "/v1/explain", Refused::Malformed),
            ("GET", "/v1/explain?target", Refused::Malformed),
            ("GET", "/v1/explain?target=", Refused::Malformed),
            ("GET", "/v1/explain?target=pod/a/b&target=pod/a/c", Refused::Malformed),
            ("GET", "/v1/explain?x=1&target=pod/a/b", Refused::Malformed),
            ("GET", "/v1/explain?target=pod/a/b%", Refused::Malformed),
            ("GET", "/v1/explain?target=pod/a/%zz", Refused::Malformed),
            ("GET", "/v1/explain?target=pod/a/%ff", Refused::Malformed),
            ("GET", "/v1/explain?target=pod/a/%1b[2J", Refused::Malformed),
            ("GET", &format!("/v1/explain?target={}", "a".repeat(URI_BYTES_MAX)), Refused::TooLong),
        ] {
            assert_eq!(parsed(method, uri), Err(refused), "{method} {uri}");
        }
    }

    #[test]
    fn a_wrong_method_is_told_the_right_one() {
        let Err((refused, said, allow)) = Request::parse(&Method::GET, "/v1/pause", None) else {
            panic!("it was taken")
        };
        assert_eq!((refused.status().as_u16(), allow), (405, Some(Method::POST)));
        assert_eq!(said.todo, "ask with POST");
    }

    proptest! {
        #[test]
        fn any_query_is_survived(query in "target=([%a-f0-9/:&=]|\\PC){0,60}") {
            let _ = Request::parse(&Method::GET, "/v1/explain", Some(&query));
        }
    }
}
