/** Records the tickets that were used. A ticket is valid once, for the one execution that its claim permits. */
export interface UsedTickets {
  /**
   * Records the ticket of a claim. Returns true to exactly one caller, and false if it was recorded before: in a table, insert the id
   * under a unique key. It can be deleted after `until`, when the ticket has expired.
   */
  readonly use: (claimId: string, until: Date) => boolean | Promise<boolean>
}

/**
 * Records used tickets in memory until they expire. They are lost at a restart and unknown to other processes: use it in a single process, for
 * tools whose execution is idempotent. `now` is the clock of `verifyTicket`, in milliseconds.
 */
export const memoryUsedTickets = (now: () => number = Date.now): UsedTickets => {
  const used = new Map<string, number>()
  return {
    use: (claimId, until) => {
      const time = now()
      // A map iterates in insertion order, and tickets expire in about that order.
      for (const [id, expiresAt] of used) {
        if (expiresAt > time) break
        used.delete(id)
      }
      if (used.has(claimId)) return false
      used.set(claimId, until.getTime())
      return true
    }
  }
}
