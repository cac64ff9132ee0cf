/// The parts of the operating system that a store uses beside its file. A simulated world replaces them.
package struct SystemServices: Sendable {
    /// Runs the loops of the store's runners and accounts.
    package var driver: any LoopDriver

    package init(driver: any LoopDriver = ThreadDriver()) { self.driver = driver }
}
