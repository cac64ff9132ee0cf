#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Numbers of the signals that processes send each other.
package enum Signal {
    package static var abort: Int32 { SIGABRT }
    package static var interrupt: Int32 { SIGINT }
    package static var kill: Int32 { SIGKILL }
    package static var quit: Int32 { SIGQUIT }
    package static var resume: Int32 { SIGCONT }
    package static var stop: Int32 { SIGSTOP }
    package static var terminate: Int32 { SIGTERM }
}
