import Glibc

/// Owns one file descriptor and closes it.
package struct FileDescriptor: ~Copyable, Sendable {
    package let number: Int32

    package init(_ number: Int32) { self.number = number }

    deinit { close(number) }
}
