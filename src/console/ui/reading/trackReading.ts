import { addInterval, before, firstUncovered, type Intervals } from "./intervals.ts"

/** The space above the next line after scrolling to it, in pixels. */
const MARGIN = 8

/** Buttons that show a folded part, and placeholders of one. `data-known`: a person said to know what is folded inside. */
const FOLDS = "[data-fold]:not([data-known] *)"

/**
 * The height of a line of text, in pixels. The last line of the screen may be cut off, so a line counts only if the screen goes on below it by
 * as much.
 */
const LINE = 26

/** How much of a part of the page was on the screen. */
export interface ReadingState {
  /** Whether each line was on the screen, and nothing is folded. */
  readonly isSeen: boolean
  /** The number of folded parts. */
  readonly folds: number
  /** Changes whenever something new comes on the screen. */
  readonly screens: number
}

export interface ReadingTracker {
  /** Scrolls to the first line that was not on the screen or opens a folded part before it. `unfold`: opens the folded parts at once. */
  readonly showNext: (unfold: (() => void) | undefined) => void
  readonly stop: () => void
}

/**
 * Tracks which lines of an element were on the screen: inside its scrolling pane, above the bar at its bottom (`data-covers`), and below no
 * dialog. Changes of the content, of its width or of its height make the lines below the change unseen again.
 */
export const trackReading = (
  element: HTMLElement,
  onChange: (state: ReadingState) => void
): ReadingTracker => {
  const pane = element.closest<HTMLElement>("[data-scrolls], .dialog")
  let seen: Intervals = []
  let width = 0
  let height = 0
  let screens = 0
  let last: ReadingState | undefined

  /** The part of the element that is on the screen, in pixels from its top. */
  const visiblePart = (box: DOMRect): readonly [number, number] => {
    const area = pane?.getBoundingClientRect()
    const bar = pane?.querySelector("[data-covers]")?.getBoundingClientRect()
    const top = Math.max(area?.top ?? 0, 0)
    const bottom = Math.min(area?.bottom ?? innerHeight, bar?.top ?? innerHeight, innerHeight)
    const isWhole = box.bottom <= bottom + 1
    const room = Math.max(bottom - top, 0)
    return [Math.max(top - box.top, 0), isWhole ? box.height : bottom - box.top - Math.min(LINE, room / 2)]
  }

  const report = () => {
    const folds = element.querySelectorAll(FOLDS).length
    const isSeen = folds === 0 && height > 0 && firstUncovered(seen, height) === undefined
    if (last?.isSeen === isSeen && last.folds === folds && last.screens === screens) return
    last = { isSeen, folds, screens }
    onChange(last)
  }

  /** Adds what is on the screen in this frame. */
  const measure = () => {
    const box = element.getBoundingClientRect()
    if (Math.abs(box.width - width) > 1 || Math.abs(box.height - height) > 1) seen = []
    width = box.width
    height = box.height
    const isCovered = document.hidden || element.closest("[inert], [aria-hidden=true]") !== null
    const known = covered(seen)
    if (!isCovered) seen = addInterval(seen, ...visiblePart(box))
    if (covered(seen) > known + 1) screens++
    report()
  }

  /** The lines below the first change are others now. */
  const onMutation = (changes: ReadonlyArray<MutationRecord>) => {
    const box = element.getBoundingClientRect()
    const first = changes.reduce((least, change) => Math.min(least, topOf(change) - box.top), box.height)
    seen = before(seen, first)
    width = box.width
    height = box.height
    report()
    measureSoon()
  }

  let frame: number | undefined
  const measureSoon = () => {
    frame ??= requestAnimationFrame(() => {
      frame = undefined
      measure()
    })
  }
  const mutations = new MutationObserver(onMutation)
  mutations.observe(element, {
    childList: true,
    characterData: true,
    subtree: true,
    attributeFilter: ["data-fold", "data-known"]
  })
  const sizes = new ResizeObserver(measureSoon)
  sizes.observe(element)
  if (pane !== null) sizes.observe(pane)
  const scroller: EventTarget = pane ?? globalThis
  scroller.addEventListener("scroll", measureSoon, { passive: true })
  document.addEventListener("visibilitychange", measureSoon)
  measure()
  return {
    showNext: (unfold) => {
      // No key acts before the next part has been on the screen for a moment.
      screens++
      report()
      const box = element.getBoundingClientRect()
      const next = firstUncovered(seen, height)
      const fold = element.querySelector<HTMLElement>(FOLDS)
      const foldTop = fold === null ? Number.POSITIVE_INFINITY : fold.getBoundingClientRect().top - box.top
      if (fold !== null && unfold !== undefined) unfold()
      else if (next === undefined || foldTop < next) fold?.click()
      else {
        const top = pane?.getBoundingClientRect().top ?? 0
        ;(pane ?? document.documentElement).scrollBy(0, box.top + next - top - MARGIN)
      }
    },
    stop: () => {
      mutations.disconnect()
      sizes.disconnect()
      scroller.removeEventListener("scroll", measureSoon)
      document.removeEventListener("visibilitychange", measureSoon)
      if (frame !== undefined) cancelAnimationFrame(frame)
    }
  }
}

const covered = (intervals: Intervals): number => intervals.reduce((sum, [from, to]) => sum + to - from, 0)

/** The place of a change: the end of the element before it, or the top of the element that contains it. Nothing moves when a clock ticks. */
const topOf = ({ previousSibling, target, type }: MutationRecord): number => {
  const element = target instanceof Element ? target : target.parentElement
  const isClock = element !== null && element.closest("time") !== null
  if (type === "attributes" || isClock) return Number.POSITIVE_INFINITY
  if (previousSibling instanceof Element && previousSibling.isConnected) {
    return previousSibling.getBoundingClientRect().bottom
  }
  return element?.isConnected === true ? element.getBoundingClientRect().top : Number.NEGATIVE_INFINITY
}
