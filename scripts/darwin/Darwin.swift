// What Apple's own Darwin module adds to its headers for Swift: variadic functions, and macros with casts or conditions. A wrong type
// here hides a wrong call.
@_exported import Darwin

@_extern(c, "dh_open") func dh_open(_ path: UnsafePointer<CChar>, _ flags: Int32, _ mode: Int32) -> Int32
@_extern(c, "dh_fcntl") func dh_fcntl(_ descriptor: Int32, _ command: Int32, _ value: Int) -> Int32

public var errno: Int32 {
    get { __error().pointee }
    set { __error().pointee = newValue }
}

public func open(_ path: UnsafePointer<CChar>, _ flags: Int32, _ mode: mode_t) -> Int32 {
    dh_open(path, flags, Int32(mode))
}

public func fcntl(_ descriptor: Int32, _ command: Int32) -> Int32 { dh_fcntl(descriptor, command, 0) }

public func fcntl(_ descriptor: Int32, _ command: Int32, _ value: Int32) -> Int32 {
    dh_fcntl(descriptor, command, Int(value))
}

public func fcntl(_ descriptor: Int32, _ command: Int32, _ pointer: UnsafeMutableRawPointer) -> Int32 {
    dh_fcntl(descriptor, command, Int(bitPattern: pointer))
}

public var MAP_FAILED: UnsafeMutableRawPointer! { UnsafeMutableRawPointer(bitPattern: -1) }
public var S_IFMT: mode_t { 0o170000 }
public var S_IFIFO: mode_t { 0o010000 }
public var S_IFREG: mode_t { 0o100000 }
public var S_IFSOCK: mode_t { 0o140000 }
public var CLOCK_REALTIME: clockid_t { _CLOCK_REALTIME }
public var CLOCK_MONOTONIC_RAW: clockid_t { _CLOCK_MONOTONIC_RAW }
public var CLOCK_UPTIME_RAW: clockid_t { _CLOCK_UPTIME_RAW }
public var CLOCK_THREAD_CPUTIME_ID: clockid_t { _CLOCK_THREAD_CPUTIME_ID }
