/** Whether the user of the page is active: the service ends a session without activity. */

/** How long after an input its user counts as active, in milliseconds. */
const ACTIVE_MS = 60_000

let lastInputAt = Date.now()

const noteInput = (): void => {
  lastInputAt = Date.now()
}

if (typeof document !== "undefined") {
  for (const type of ["pointerdown", "keydown", "wheel", "touchmove"]) {
    document.addEventListener(type, noteInput, { capture: true, passive: true })
  }
}

/** Whether there was no input for a minute. The page itself, not its user, makes the requests then. */
export const isUserIdle = (): boolean => Date.now() - lastInputAt > ACTIVE_MS
