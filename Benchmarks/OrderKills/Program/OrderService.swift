import Platform

/// The service had no answer.
package struct NoAnswer: Error, CustomStringConvertible {
    let request: String
    package var description: String { "no answer to \(request)" }
}

/// The programs elsewhere: run.py, at the other end of a socket.
struct OrderService {
    let path: String

    /// Sends a line, and waits for the answer.
    ///
    /// - Throws: ``NoAnswer`` when the connection ends without one, or none has come in ten seconds.
    func request(_ line: String) throws -> String {
        let socket = try StreamSocket.connected(toPath: path)
        var answer: [UInt8] = []
        guard socket.send(Array((line + "\n").utf8)) else { throw NoAnswer(request: line) }
        while socket.waitReadable(milliseconds: 10_000) {
            let bytes = socket.receive(atMost: 4096)
            if bytes.isEmpty { break }
            answer += bytes
        }
        guard !answer.isEmpty else { throw NoAnswer(request: line) }
        return String(decoding: answer, as: UTF8.self)
    }
}
