public import Handlers
import Synchronization

/// Codes that work once, and the sessions that they open.
///
/// ```swift
/// let sessions = DashboardSessions()
/// print("http://127.0.0.1:8377/#code=\(sessions.makeCode())")
/// ```
/// A browser sends cookies of a machine to each of its ports, so there are none: the page keeps a token for its own origin, and sends
/// it in a header. Codes and tokens are in memory only and end with the process.
public final class DashboardSessions: Sendable {
    private struct State {
        /// Codes with the monotonic times at which they end.
        var codes: [(code: [UInt8], end: Duration)] = []
        /// Tokens with the monotonic times at which they were used last.
        var tokens: [(token: [UInt8], used: Duration)] = []
        /// When wrong codes were given.
        var wrong: [Duration] = []
    }

    private let state = Mutex(State())
    private let time: TimeSource

    /// How long a code may be used.
    public static let codeLife = Duration.seconds(60)
    /// How long a session lives without a request.
    public static let longestPause = Duration.seconds(12 * 3600)
    /// The maximum number of codes that wait; the oldest is forgotten for a new one.
    static let mostCodes = 8
    /// The maximum number of sessions; the one that was used least recently ends for a new one.
    static let mostTokens = 64
    /// The maximum number of wrong codes in a minute; further ones are refused unseen.
    static let mostWrong = 10

    /// Makes an empty table of sessions.
    ///
    /// - Parameter time: The clocks; tests pass their own.
    public init(time: TimeSource = .system) { self.time = time }

    /// Makes a code of 128 bits that works once within a minute.
    ///
    /// - Returns: The code, as 32 hexadecimal digits.
    public func makeCode() -> String {
        let (code, now) = (Self.random(bits: 128), time.monotonic())
        state.withLock { state in
            state.codes.removeAll { $0.end <= now }
            if state.codes.count == Self.mostCodes { state.codes.removeFirst() }
            state.codes.append((Array(code.utf8), now + Self.codeLife))
        }
        return code
    }

    /// Exchanges a code for a token of 256 bits.
    func token(for code: String) throws(DashboardFailure) -> String {
        let (code, now) = (Array(code.utf8), time.monotonic())
        let result = state.withLock { state -> Result<String, DashboardFailure> in
            state.wrong.removeAll { $0 <= now - .seconds(60) }
            guard state.wrong.count < Self.mostWrong else {
                return .failure(
                    DashboardFailure(
                        429, "too-many-codes", "Too many wrong codes were given.", hint: "Wait a minute."))
            }
            state.codes.removeAll { $0.end <= now }
            guard let index = state.codes.firstIndex(where: { Self.isEqual($0.code, code) }) else {
                state.wrong.append(now)
                return .failure(
                    DashboardFailure(
                        401, "wrong-code", "The code is wrong, was used, or is older than a minute.",
                        hint: "Press Enter in the terminal of the command for a new one."))
            }
            state.codes.remove(at: index)
            let token = Self.random(bits: 256)
            state.tokens.removeAll { $0.used <= now - Self.longestPause }
            if state.tokens.count == Self.mostTokens,
                let oldest = state.tokens.indices.min(by: { state.tokens[$0].used < state.tokens[$1].used })
            {
                state.tokens.remove(at: oldest)
            }
            state.tokens.append((Array(token.utf8), now))
            return .success(token)
        }
        return try result.get()
    }

    /// Returns whether a request names a session that lives, and notes that it was used.
    ///
    /// - Parameter authorization: The header `Authorization`.
    /// - Returns: Whether it is `Bearer` with a token that was given.
    public func admits(_ authorization: String?) -> Bool {
        guard let authorization, authorization.hasPrefix("Bearer ") else { return false }
        let (token, now) = (Array(authorization.dropFirst(7).utf8), time.monotonic())
        return state.withLock { state in
            state.tokens.removeAll { $0.used <= now - Self.longestPause }
            guard let index = state.tokens.firstIndex(where: { Self.isEqual($0.token, token) }) else {
                return false
            }
            state.tokens[index].used = now
            return true
        }
    }

    /// Compares in a time that does not depend on where two texts differ.
    private static func isEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        guard left.count == right.count else { return false }
        var difference: UInt8 = 0
        for (one, other) in zip(left, right) { difference |= one ^ other }
        return difference == 0
    }

    /// Random bits of the system's generator for keys.
    private static func random(bits: Int) -> String {
        var generator = SystemRandomNumberGenerator()
        return (0..<bits / 64).map { _ in
            let digits = String(generator.next() as UInt64, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }
}
