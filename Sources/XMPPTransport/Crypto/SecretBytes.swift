import COpenSSL

/// Bytes that are wiped from memory when the last reference to them is gone.
///
/// Copies that the caller made before (a `String` with a password) are not its business; make it early and
/// keep only it. It prints as dots.
///
/// `@unchecked Sendable`: the memory is written only in `init` and freed only in `deinit`.
package final class SecretBytes: @unchecked Sendable, CustomStringConvertible, CustomReflectable {
    private let memory: UnsafeMutableRawBufferPointer

    /// A secret of `count` bytes, filled in by `fill`.
    init(count: Int, fill: (UnsafeMutableBufferPointer<UInt8>) -> Void) {
        memory = .allocate(byteCount: count, alignment: 1)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
        fill(memory.assumingMemoryBound(to: UInt8.self))
    }

    /// Copies `bytes`.
    package convenience init(_ bytes: some Collection<UInt8>) {
        self.init(count: bytes.count) { _ = $0.update(fromContentsOf: bytes) }
    }

    /// Copies the text as UTF-8.
    package convenience init(_ text: String) { self.init(text.utf8) }

    deinit {
        OPENSSL_cleanse(memory.baseAddress, memory.count)
        memory.deallocate()
    }

    /// Lends the bytes. They must not be kept.
    package func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try body(UnsafeRawBufferPointer(memory))
    }

    package var description: String { "•••" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
