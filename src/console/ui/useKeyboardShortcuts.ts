import { useEffect, useEffectEvent } from "react"

/**
 * Binds keyboard shortcuts, by `KeyboardEvent.key`, or by `Shift+` and the key. They are ignored in form fields, in dialogs and with other
 * modifier keys.
 */
export const useKeyboardShortcuts = (shortcuts: Readonly<Record<string, () => void>>): void => {
  const onKeyDown = useEffectEvent((event: KeyboardEvent) => {
    if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return
    const { target } = event
    if (target instanceof HTMLElement && target.closest(IGNORED_TARGETS) !== null) return
    // A key that is held down moves on, and acts on one thing only.
    if (event.repeat && !REPEATED_KEYS.has(event.key)) return
    const action = (event.shiftKey ? shortcuts[`Shift+${event.key}`] : undefined) ?? shortcuts[event.key]
    if (action === undefined) return
    event.preventDefault()
    action()
  })
  useEffect(() => {
    const listener = (event: KeyboardEvent) => onKeyDown(event)
    addEventListener("keydown", listener)
    return () => removeEventListener("keydown", listener)
  }, [])
}

const REPEATED_KEYS: ReadonlySet<string> = new Set(["j", "k", "ArrowDown", "ArrowUp"])

const IGNORED_TARGETS = "input, textarea, select, [contenteditable], [role=dialog]"
