package import Timestamps

/// A name that a program gives: of a handler, a lane, a scope, a key, a module.
///
/// SQL compares the bytes of names, and so must everything in memory that repeats what rows say. A `String` finds `café` equal in
/// both of its Unicode forms.
package typealias Name = ForeignText
