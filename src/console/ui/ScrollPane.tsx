import type { ReactNode, Ref } from "react"

/** The pane of the selected entry. It takes the focus, so that the keyboard scrolls it. */
export const ScrollPane = ({
  children,
  label,
  ref
}: {
  readonly label: string
  readonly ref?: Ref<HTMLElement>
  readonly children: ReactNode
}) => (
  // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- without the focus, long content cannot be read by keyboard
  <section ref={ref} tabIndex={0} data-scrolls="" className="pane detail-pane" aria-label={label}>
    {children}
  </section>
)

/** Moves the focus to an element if the element that had it is gone. Waits until the page shows the change. */
export const focusIfLost = (element: () => HTMLElement | null | undefined): void =>
  void requestAnimationFrame(() => {
    if (document.activeElement === document.body) element()?.focus()
  })
