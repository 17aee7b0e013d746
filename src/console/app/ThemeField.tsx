import { useAtomValue } from "../state/atoms.ts"
import { setTheme, Theme, themeAtom } from "../state/theme.ts"

const labels: Record<Theme, string> = { system: "System", light: "Light", dark: "Dark" }

/** Chooses light or dark colours. */
export const ThemeField = () => {
  const selected = useAtomValue(themeAtom)
  return (
    <fieldset className="theme">
      <legend className="visually-hidden">Theme</legend>
      {Theme.literals.map((theme) => (
        <label key={theme}>
          <input type="radio" name="theme" checked={theme === selected} onChange={() => setTheme(theme)} />
          {labels[theme]}
        </label>
      ))}
    </fieldset>
  )
}
