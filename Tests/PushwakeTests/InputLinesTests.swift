import Glibc
import PushwakeCommands
import TestThreads
import Testing

@Suite(.ownThread) struct InputLinesTests {
    /// What is read of `bytes` from a pipe.
    private func lines(_ bytes: [UInt8]) throws -> [String] {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        // As much as a pipe holds.
        try #require(bytes.count <= 65_536 && write(ends[1], bytes, bytes.count) == bytes.count)
        close(ends[1])
        return Array(InputLines(ends[0]))
    }

    @Test("W6 lines of standard input end at each line end, and the last one at the end of the input")
    func lines() throws {
        #expect(try lines(Array("one\n\ntwo\r\nthree".utf8)) == ["one", "", "two", "three"])
        #expect(try lines(Array("one\n".utf8)) == ["one"])
        #expect(try lines([]) == [])
        let long = String(repeating: "é", count: 20_000)
        #expect(try lines(Array("\(long)\n\(long.prefix(3))".utf8)) == [long, "ééé"])
    }

    @Test("W6 bytes of standard input that are not UTF-8 are repaired")
    func repaired() throws {
        #expect(try lines([0x61, 0xFF, 0x62, 0x0A, 0x63]) == ["a\u{FFFD}b", "c"])
    }

    @Test("W6 a line of standard input without end does not grow memory without bound")
    func bounded() throws {
        let path = "/dev/zero"
        let file = open(path, O_RDONLY)
        try #require(file >= 0)
        defer { close(file) }
        var lines = InputLines(file)
        #expect(lines.next()?.utf8.count == InputLines.longest)
        #expect(lines.next()?.utf8.count == InputLines.longest)
    }
}
