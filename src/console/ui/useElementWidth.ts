import { useCallback, useEffect, useState } from "react"

/** The width of an element in pixels before it is measured. */
const INITIAL_WIDTH = 480

/** The width of an element, which follows its size on the page. `measure` is the element's `ref`. */
export const useElementWidth = (): {
  readonly measure: (element: HTMLElement | null) => void
  readonly width: number
} => {
  const [element, setElement] = useState<HTMLElement | null>(null)
  const [width, setWidth] = useState(INITIAL_WIDTH)
  // Before the first paint: a layout that changes afterwards moves links away from the pointer that presses them.
  const measure = useCallback((measured: HTMLElement | null) => {
    setElement(measured)
    if (measured !== null && measured.clientWidth > 0) setWidth(measured.clientWidth)
  }, [])
  useEffect(() => {
    if (element === null) return undefined
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined && entry.contentRect.width > 0) setWidth(Math.round(entry.contentRect.width))
    })
    observer.observe(element)
    return () => observer.disconnect()
  }, [element])
  return { measure, width }
}
