/** The time that a call has left. */
export interface CallLimits {
  /** Aborts when the caller has its answer. A call must send nothing after that. */
  signal: AbortSignal;
  /**
   * Returns the milliseconds for a try that starts now. Throws EventStoreUnavailable if none are
   * left.
   */
  attemptMs(): number;
}
