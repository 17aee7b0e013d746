/** A call to the service and its answer, with times in milliseconds on one monotonic clock. */
export interface Operation<Call> {
  /** Who called. The calls of one client do not overlap, except with its lost ones. */
  readonly client: string
  readonly call: Call
  /**
   * The answer, as the model of the object writes it. Undefined if no answer came that tells what happened: the process
   * was killed, the call timed out, or the service answered that its database is unavailable. Such a call takes effect
   * at any later time, or never.
   */
  readonly answer: string | undefined
  readonly invokedAt: number
  /** Infinity if the answer was lost. */
  readonly answeredAt: number
}

/** Whether no answer tells what became of an operation. */
export const isLost = ({ answer }: { readonly answer: string | undefined }): boolean => answer === undefined
