//! Each mode of the wire, seen by an echo at its other end.

use std::io::ErrorKind;

use tokio::time::timeout;

use super::*;

/// Long enough for whatever must come.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Long enough to believe that nothing comes.
const SILENCE: Duration = Duration::from_millis(100);

/// An echo, and a wire to it.
async fn echo() -> Proxy {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let target = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reads, mut writes) = stream.split();
                let _ = tokio::io::copy(&mut reads, &mut writes).await;
                let _ = writes.shutdown().await;
            });
        }
    });
    Proxy::to(target).await.expect("a wire")
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(("127.0.0.1", proxy.port())).await.expect("a connection")
}

/// Sends, and reads as much back.
async fn echoed(stream: &mut TcpStream, text: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(text).await?;
    let mut back = vec![0; text.len()];
    timeout(TIMEOUT, stream.read_exact(&mut back)).await.expect("an answer in time")?;
    Ok(back)
}

async fn is_silent(stream: &mut TcpStream) -> bool {
    timeout(SILENCE, stream.read_u8()).await.is_err()
}

/// What comes until the end, and whether the end was a reset.
async fn rest(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    let ended = timeout(TIMEOUT, stream.read_to_end(&mut all)).await.expect("an end in time");
    match ended {
        Ok(_) => (all, false),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            (all, true)
        }
    }
}

#[tokio::test]
async fn what_passes_is_counted_and_its_end_passes_too() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await;
    assert_eq!(echoed(&mut stream, b"hello").await.expect("an echo"), b"hello");
    assert_eq!((proxy.accepted(), proxy.bytes(Way::There), proxy.bytes(Way::Back)), (1, 5, 5));
    stream.write_all(b"last").await.expect("it goes");
    stream.shutdown().await.expect("it closes");
    assert_eq!(rest(&mut stream).await, (b"last".to_vec(), false));
}

#[tokio::test]
async fn a_late_wire_is_late_once_a_round_trip_and_not_narrow() {
    let proxy = echo().await;
    proxy.set(Mode::Delay(Duration::from_millis(200)));
    let mut stream = connect(&proxy).await;
    let begun = Instant::now();
    let much = vec![7; 400_000];
    let (mut reads, mut writes) = stream.split();
    let mut back = vec![0; much.len()];
    let (sent, received) = tokio::join!(writes.write_all(&much), reads.read_exact(&mut back));
    sent.and(received.map(drop)).expect("an echo");
    let took = begun.elapsed();
    assert!(back == much && took >= Duration::from_millis(200) && took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn a_black_hole_holds_what_comes_until_it_is_lifted() {
    let proxy = echo().await;
    let mut old = connect(&proxy).await;
    echoed(&mut old, b"before").await.expect("an echo");
    proxy.set(Mode::BlackHole);
    let mut new = connect(&proxy).await;
    for stream in [&mut old, &mut new] {
        stream.write_all(b"x").await.expect("it is taken");
        assert!(is_silent(stream).await);
    }
    proxy.set(Mode::Pass);
    for stream in [&mut old, &mut new] {
        assert_eq!(timeout(TIMEOUT, stream.read_u8()).await.expect("in time").expect("a byte"), b'x');
    }
}

#[tokio::test]
async fn a_reset_reaches_those_who_are_connected_and_nobody_else() {
    let proxy = echo().await;
    let mut old = connect(&proxy).await;
    echoed(&mut old, b"before").await.expect("an echo");
    proxy.reset();
    assert_eq!(rest(&mut old).await, (Vec::new(), true));
    let mut new = connect(&proxy).await;
    assert_eq!(echoed(&mut new, b"after").await.expect("an echo"), b"after");
}

#[tokio::test]
async fn who_is_refused_is_reset_and_who_is_there_stays() {
    let proxy = echo().await;
    let mut old = connect(&proxy).await;
    echoed(&mut old, b"before").await.expect("an echo");
    proxy.set(Mode::Refuse);
    let mut new = connect(&proxy).await;
    let _ = new.write_all(b"x").await;
    assert_eq!(rest(&mut new).await, (Vec::new(), true));
    assert_eq!(echoed(&mut old, b"still").await.expect("an echo"), b"still");
}

#[tokio::test]
async fn a_half_closed_wire_ends_one_way_and_carries_the_other() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await;
    echoed(&mut stream, b"before").await.expect("an echo");
    proxy.half_close(Way::Back);
    assert_eq!(rest(&mut stream).await, (Vec::new(), false));
    let there = proxy.bytes(Way::There);
    stream.write_all(b"still goes there").await.expect("it goes");
    let gone = timeout(TIMEOUT, async {
        while proxy.bytes(Way::There) < there + 16 {
            tokio::task::yield_now().await;
        }
    });
    gone.await.expect("it went there");
}

#[tokio::test]
async fn a_cut_comes_after_exactly_so_many_bytes() {
    let proxy = echo().await;
    for (how, reset) in [(Cut::HalfClose, false), (Cut::Reset, true)] {
        for after in [0, 1, 4] {
            proxy.set(Mode::CutAfter(Way::Back, after, how));
            let mut stream = connect(&proxy).await;
            let (there, back) = (proxy.bytes(Way::There), proxy.bytes(Way::Back));
            stream.write_all(b"hello").await.expect("it goes");
            let (received, was_reset) = rest(&mut stream).await;
            assert_eq!((was_reset, proxy.bytes(Way::There) - there, proxy.bytes(Way::Back) - back), (reset, 5, after));
            // A reset may take with it what was not read yet.
            assert!(reset || received == b"hello"[..after as usize], "{received:?}");
        }
    }
    // Counted from the moment it is asked for.
    proxy.set(Mode::Pass);
    let mut stream = connect(&proxy).await;
    echoed(&mut stream, b"a long while before").await.expect("an echo");
    proxy.set(Mode::CutAfter(Way::There, 3, Cut::HalfClose));
    stream.write_all(b"hello").await.expect("it goes");
    assert_eq!(rest(&mut stream).await, (b"hel".to_vec(), false));
    // A connection that ends before that byte is not cut.
    let before = proxy.cuts();
    proxy.set(Mode::CutAfter(Way::There, 5, Cut::Reset));
    let mut stream = connect(&proxy).await;
    assert_eq!(echoed(&mut stream, b"hello").await.expect("an echo"), b"hello");
    assert_eq!((before, proxy.cuts()), (7, 7));
}

#[tokio::test]
async fn a_silent_cut_says_nothing_until_the_mode_changes() {
    let proxy = echo().await;
    proxy.set(Mode::CutAfter(Way::Back, 2, Cut::Silence));
    let mut stream = connect(&proxy).await;
    stream.write_all(b"hello").await.expect("it goes");
    let mut two = [0; 2];
    timeout(TIMEOUT, stream.read_exact(&mut two)).await.expect("in time").expect("two bytes");
    assert!(&two == b"he" && is_silent(&mut stream).await);
    proxy.set(Mode::Pass);
    assert_eq!(rest(&mut stream).await, (Vec::new(), true));
}

#[tokio::test]
async fn what_is_lost_one_way_reaches_nobody() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await;
    echoed(&mut stream, b"before").await.expect("an echo");
    proxy.set(Mode::Lose(Way::There));
    stream.write_all(b"lost").await.expect("it is taken");
    assert!(is_silent(&mut stream).await);
    proxy.set(Mode::Pass);
    assert_eq!(echoed(&mut stream, b"after").await.expect("an echo"), b"after");
}

#[tokio::test]
async fn a_narrow_wire_takes_its_time() {
    let proxy = echo().await;
    proxy.set(Mode::Rate(100_000));
    let mut stream = connect(&proxy).await;
    let begun = Instant::now();
    echoed(&mut stream, &vec![7; 20_000]).await.expect("an echo");
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
}
