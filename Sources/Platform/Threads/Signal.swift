import Glibc

/// Numbers of the signals that processes send each other.
package enum Signal {
    package static var abort: Int32 { SIGABRT }
    package static var kill: Int32 { SIGKILL }
    package static var resume: Int32 { SIGCONT }
    package static var stop: Int32 { SIGSTOP }
}
