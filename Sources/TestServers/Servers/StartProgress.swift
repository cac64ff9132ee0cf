import FoundationEssentials

/// Whether a server that starts still makes progress. On a busy machine a start takes many times as long as on an idle one, so the
/// time since its start says nothing. Nor does its processor time alone: Erlang hands each of some ten thousand file operations
/// to another thread, which waits for milliseconds behind other programs and then works for microseconds.
struct StartProgress {
    /// Half a second in the kernel's unit of 10 ms. A server that only waits uses less of a processor in a minute.
    private static let work = 50
    /// Bytes. A server that only waits reads less in a minute.
    private static let reading = 65_536

    private let processID: Int32
    private let patience: Duration
    private var seen = Mark(written: 0, worked: 0, read: 0)
    private var since = ContinuousClock.now

    private struct Mark: Equatable {
        var written: Int
        var worked: Int
        var read: Int
    }

    /// - Parameter patience: How long the server may neither write to its log nor read 64 KiB nor use half a second of a processor.
    init(of child: ChildProcess, patience: Duration) {
        processID = child.processID
        self.patience = patience
    }

    /// Whether the server has done nothing for as long as the patience lasts.
    ///
    /// - Parameter log: The server's log so far.
    mutating func isStuck(log: String) -> Bool {
        let now = Mark(
            written: log.utf8.count, worked: Self.processorTime(of: processID) / Self.work,
            read: Self.bytesRead(by: processID) / Self.reading)
        if now != seen { (seen, since) = (now, .now) }
        return ContinuousClock.now >= since + patience
    }

    /// The processor time of a process in units of 10 ms; zero when there is no such process.
    private static func processorTime(of processID: Int32) -> Int {
        let line = try? String(contentsOfFile: "/proc/\(processID)/stat", encoding: .utf8)
        // After the name, which is in parentheses and may contain any character: 11 other fields, then user and system time.
        let fields = line?.split(separator: ")").last?.split(separator: " ") ?? []
        return fields.dropFirst(11).prefix(2).compactMap { Int($0) }.reduce(0, +)
    }

    /// The bytes that a process has read from files, pipes and sockets; zero when there is no such process.
    private static func bytesRead(by processID: Int32) -> Int {
        let text = (try? String(contentsOfFile: "/proc/\(processID)/io", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("rchar: ") }
        return line.flatMap { Int($0.dropFirst("rchar: ".count)) } ?? 0
    }
}
