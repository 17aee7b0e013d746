import { type RefObject, useEffect, useLayoutEffect, useRef, useState } from "react"
import { type ReadingState, type ReadingTracker, trackReading } from "./trackReading.ts"

/** How long something is on the screen before a key acts on it, in milliseconds: no person reads faster. */
const READING_MS = 300

/** Whether keys may act on what is shown: it has been on the screen for a moment since the last change of `shown`. */
export const useArmed = (shown: number | string = ""): boolean => {
  const [armed, setArmed] = useState<number | string>()
  useEffect(() => {
    const timer = setTimeout(() => setArmed(shown), READING_MS)
    return () => clearTimeout(timer)
  }, [shown])
  return armed === shown
}

/** What a person can have read of a part of the page. */
export interface Reading extends Omit<ReadingState, "screens"> {
  /** Whether something was not on the screen before. */
  readonly wasUnread: boolean
  /** Whether keys may act: nothing new has come on the screen for a moment. */
  readonly isArmed: boolean
  /** Shows the next part that was not on the screen. Opens folded parts before it scrolls. */
  readonly showNext: () => void
  /** For `JsonTree`. */
  readonly isUnfolded: boolean
}

const unread = { isSeen: false, folds: 0, screens: 0, wasUnread: false }

/**
 * Tracks whether each line of an element was on the screen, so that nothing is approved unseen. `region` is its `ref`. `unfolds`: the caller
 * passes `isUnfolded` on; else folded parts are opened one by one.
 */
export const useReading = (region: RefObject<HTMLElement | null>, unfolds = false): Reading => {
  const [{ folds, isSeen, screens, wasUnread }, setState] = useState(unread)
  const tracker = useRef<ReadingTracker>(undefined)
  // Before the first paint: what is shown whole is seen at once.
  useLayoutEffect(() => {
    if (region.current === null) return undefined
    const note = (state: ReadingState) =>
      setState((before) => ({ ...state, wasUnread: before.wasUnread || !state.isSeen }))
    tracker.current = trackReading(region.current, note)
    return tracker.current.stop
  }, [region])
  const [isUnfolded, setUnfolded] = useState(false)
  const unfold = isUnfolded || !unfolds ? undefined : () => setUnfolded(true)
  return {
    isSeen,
    folds,
    wasUnread,
    isUnfolded,
    isArmed: useArmed(screens),
    showNext: () => tracker.current?.showNext(unfold)
  }
}
