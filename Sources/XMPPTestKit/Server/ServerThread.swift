import Glibc
import XMPPTransport

/// A thread of its own for a server, and the means to wake it out of poll(2).
///
/// `@unchecked Sendable`: nothing changes after `init` but what ``join()`` does, which one caller calls once.
final class ServerThread: @unchecked Sendable {
    private final class Body {
        let run: () -> Void
        init(_ run: @escaping () -> Void) { self.run = run }
    }

    private var thread = pthread_t()
    private let waker: Socket
    private let wakerDescriptor: Int32

    /// Starts the thread.
    ///
    /// - Parameters:
    ///   - name: What the system shows for the thread; at most 15 bytes.
    ///   - body: Gets a descriptor that is readable after ``wake()``. What it returns runs last.
    init(name: String, _ body: @escaping @Sendable (Int32) -> () -> Void) throws(ScriptedServerError) {
        let wakened: Socket
        do throws(TransportError) {
            (waker, wakened) = try Socket.pair()
        } catch {
            throw ScriptedServerError(
                .system, "Close other files or raise the limit of open files.", cause: error)
        }
        wakerDescriptor = waker.fileDescriptor
        let box = Body {
            Self.name(name)
            let finish = body(wakened.fileDescriptor)
            wakened.close()
            finish()
        }
        let pointer = Unmanaged.passRetained(box).toOpaque()
        // A signal that the process handles must not run on this thread, so it starts with all of them blocked.
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &before)
        let code = pthread_create(
            &thread, nil,
            { pointer in
                Unmanaged<Body>.fromOpaque(pointer!).takeRetainedValue().run()
                return nil
            }, pointer)
        pthread_sigmask(SIG_SETMASK, &before, nil)
        guard code == 0 else {
            Unmanaged<Body>.fromOpaque(pointer).release()
            throw ScriptedServerError(
                .system, "No thread could be started (\(systemMessage(code))); raise the process's limits.")
        }
    }

    private static func name(_ name: String) {
        let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        _ = write(file, name, name.utf8.count)
        close(file)
    }

    /// Whether this is the thread that asks.
    var isCurrent: Bool { pthread_equal(pthread_self(), thread) != 0 }

    /// Ends the thread's wait. A byte that finds no room is not needed: the thread is awake already.
    func wake() {
        var byte: UInt8 = 1
        _ = send(wakerDescriptor, &byte, 1, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
    }

    /// Waits until the thread has ended; from the thread itself, lets it end alone.
    func join() {
        if isCurrent { pthread_detach(thread) } else { pthread_join(thread, nil) }
    }
}
