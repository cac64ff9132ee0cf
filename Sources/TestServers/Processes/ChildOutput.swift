import Glibc
import Platform
import Synchronization

/// The reading end of a child's standard output or standard error.
///
/// A child that has written more than a pipe holds (64 KiB) waits for a reader. If nothing reads the output, send it to a file.
package final class ChildOutput: Sendable {
    private struct State: ~Copyable {
        let descriptor: FileDescriptor
        var buffer: [UInt8] = []
        /// The index in `buffer` of the first byte that was not returned yet.
        var start = 0
        /// The bytes before this index contain no line end.
        var searched = 0
        var ended = false
    }

    private let state: Mutex<State>
    /// Keeps the child alive for a caller that holds only its output.
    private let life: ChildLife

    init?(reading descriptor: consuming FileDescriptor?, of life: ChildLife) {
        guard let descriptor else { return nil }
        state = Mutex(State(descriptor: descriptor))
        self.life = life
    }

    /// Returns the next line without its line end; nil after the last one.
    ///
    /// Bytes that are not UTF-8 are repaired. A last line without a line end counts as a line.
    /// - Throws: ``ChildProcessError`` `timedOut` when no whole line arrived before the deadline, and `readFailed` when the system
    ///   could not read. After `timedOut`, the partial line is kept for the next call.
    package func readLine(deadline: ContinuousClock.Instant) throws(ChildProcessError) -> String? {
        try state.withLock { state throws(ChildProcessError) in
            while true {
                if let line = Self.removeLine(&state) { return line }
                if state.ended { return Self.removeRest(&state) }
                try Self.fill(&state, deadline: deadline)
            }
        }
    }

    /// Returns the first line that satisfies the condition and drops the lines before it.
    ///
    /// - Throws: ``ChildProcessError`` `timedOut` when no such line arrived in time, and `streamClosed` when the output ended
    ///   first.
    package func readLine(
        deadline: ContinuousClock.Instant, where condition: (String) -> Bool
    ) throws(ChildProcessError) -> String {
        var last = "nothing"
        while let line = try readLine(deadline: deadline) {
            if condition(line) { return line }
            last = "\"\(line)\""
        }
        throw ChildProcessError(
            .streamClosed, "The child's output ended before the awaited line; its last: \(last).")
    }

    /// Returns the output up to the end of the first occurrence of these words, for output without lines.
    /// - Throws: As ``readLine(deadline:)``, and `streamClosed` when the output ended first.
    package func readText(until words: String, deadline: ContinuousClock.Instant) throws(ChildProcessError)
        -> String
    {
        try state.withLock { state throws(ChildProcessError) in
            while true {
                let unread = state.buffer[state.start...]
                if let end = unread.firstRange(of: Array(words.utf8))?.upperBound {
                    defer { state.start = end }
                    return String(decoding: state.buffer[state.start..<end], as: UTF8.self)
                }
                guard !state.ended else {
                    throw ChildProcessError(
                        .streamClosed, "The child's output ended before \"\(words)\" came.")
                }
                try Self.fill(&state, deadline: deadline)
            }
        }
    }

    /// Returns the whole output up to its end.
    /// - Throws: As ``readLine(deadline:)``.
    package func readToEnd(deadline: ContinuousClock.Instant) throws(ChildProcessError) -> String {
        try state.withLock { state throws(ChildProcessError) in
            while !state.ended { try Self.fill(&state, deadline: deadline) }
            return Self.removeRest(&state) ?? ""
        }
    }

    private static func removeLine(_ state: inout State) -> String? {
        let from = max(state.start, state.searched)
        guard let end = state.buffer[from...].firstIndex(of: UInt8(ascii: "\n")) else {
            state.searched = state.buffer.count
            return nil
        }
        let line = String(decoding: state.buffer[state.start..<end], as: UTF8.self)
        state.start = end + 1
        return line
    }

    private static func removeRest(_ state: inout State) -> String? {
        defer {
            state.buffer = []
            state.start = 0
            state.searched = 0
        }
        let rest = state.buffer[state.start...]
        return rest.isEmpty ? nil : String(decoding: rest, as: UTF8.self)
    }

    private static func fill(_ state: inout State, deadline: ContinuousClock.Instant)
        throws(ChildProcessError)
    {
        guard waitReadable(state.descriptor.number, deadline: deadline) else {
            throw ChildProcessError(.timedOut, "The child wrote nothing more before the deadline.")
        }
        state.buffer.removeFirst(state.start)
        state.searched = max(0, state.searched - state.start)
        state.start = 0
        let number = state.descriptor.number
        var failure: Int32 = 0
        let chunk = [UInt8](unsafeUninitializedCapacity: 65536) { space, count in
            var got = -1
            repeat { got = read(number, space.baseAddress, space.count) } while got < 0 && errno == EINTR
            failure = got < 0 ? errno : 0
            count = max(0, got)
        }
        guard failure == 0 else {
            throw ChildProcessError(
                .readFailed, "Reading from the child failed: \(Errno(rawValue: failure)).")
        }
        state.ended = chunk.isEmpty
        state.buffer += chunk
    }
}
