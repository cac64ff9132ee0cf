import Glibc

/// The same work by python-omemo, everything in memory; see Benchmarks/peers/omemo_peer.py.
enum PythonPeer {
    /// Messages a second; nil where it is not installed.
    static func rates(_ count: Int) -> (encrypt: Double, decrypt: Double)? {
        let command = ".build/peers/bin/python Benchmarks/peers/omemo_peer.py \(count)"
        guard let pipe = popen(command, "r") else { return nil }
        var (text, line) = ("", [CChar](repeating: 0, count: 200))
        while fgets(&line, Int32(line.count), pipe) != nil {
            text += String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
        guard pclose(pipe) == 0 else { return nil }
        func rate(_ name: String) -> Double? {
            text.split(separator: "\n").first { $0.hasPrefix(name) }.flatMap {
                Double($0.dropFirst(name.count + 1))
            }
        }
        guard let encrypt = rate("encrypt"), let decrypt = rate("decrypt") else { return nil }
        return (encrypt, decrypt)
    }
}
