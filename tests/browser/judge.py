"""What a page is judged by: width, accessibility, keyboard, and what CloudWatch leaves of it."""

from dataclasses import dataclass

# The last is 1,280 pixels at 200 % zoom.
WIDTHS = (1024, 1280, 1920, 2560, 640)
# From this width on, no table scrolls by itself.
WHOLE_FROM = 1024
THEMES = ("light", "dark")
# What can be reached with the keyboard, of what is shown.
FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]:not([tabindex='-1'])"
# What takes more Tabs than this is not operable with the keyboard.
MOST_TABS = 400


@dataclass
class Judge:
    """The sources of axe and of DOMPurify, which a page takes by `evaluate`: its policy lets no script in."""

    axe: str
    purify: str

    def violations(self, page):
        """What axe finds, by rule: the elements, in short."""
        page.evaluate(self.axe)
        found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
        return {
            violation["id"]: [f"{node['html'][:200]} {node['failureSummary']}" for node in violation["nodes"][:3]]
            for violation in found["violations"]
        }

    def purified(self, page, html):
        """The HTML after what CloudWatch documents that it does: no script, no iframe, no use; its own tag stays."""
        page.evaluate(self.purify)
        return page.evaluate(PURIFY, html)


PURIFY = """html => DOMPurify.sanitize(html, {
  ADD_TAGS: ['cwdb-action'], ADD_ATTR: ['endpoint', 'action', 'display', 'confirmation'],
  ADD_URI_SAFE_ATTR: ['endpoint'], FORBID_TAGS: ['iframe', 'use'], FORCE_BODY: true,
})"""

# Everything that a fragment consists of, in its order.
PARTS = """html => {
  const parts = [];
  const walk = node => {
    for (const child of node.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) parts.push(child.data);
      if (child.nodeType !== Node.ELEMENT_NODE) continue;
      const attributes = [...child.attributes].map(({ name, value }) => `${name}=${value}`).sort();
      parts.push(`<${child.tagName.toLowerCase()} ${attributes.join(' ')}>`);
      walk(child);
    }
  };
  walk(new DOMParser().parseFromString(`<body>${html}`, 'text/html').body);
  return parts;
}"""


def too_wide(page):
    """By how many pixels the page, or a table of a wide one, can be scrolled sideways; and what sticks out."""
    return page.evaluate(
        """whole => {
      const cut = [...document.querySelectorAll('.wide')].filter(
        table => document.documentElement.clientWidth >= whole && table.scrollWidth > table.clientWidth + 1);
      if (cut.length) return [cut[0].scrollWidth - cut[0].clientWidth, [cut[0].getAttribute('aria-label')]];
      const root = document.scrollingElement, more = root.scrollWidth - root.clientWidth;
      const out = [...document.querySelectorAll('body *')]
        .filter(element => element.getBoundingClientRect().right > root.clientWidth + 1)
        .map(element => `${element.tagName}.${element.className}`.slice(0, 60));
      return more > 0 ? [more, out.slice(0, 8)] : null;
    }""",
        WHOLE_FROM,
    )


def by_keyboard(page):
    """Tabs through the page. Returns what can be focused and was not reached, and what shows no focus."""
    page.evaluate(
        """selector => {
          window.wanted = [...document.querySelectorAll(selector)].filter(element => element.checkVisibility());
          document.activeElement.blur();
        }""",
        FOCUSABLE,
    )
    unseen = []
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        at = page.evaluate("""() => {
          const element = document.activeElement;
          if (!element || element === document.body) return null;
          element.reached = (element.reached || 0) + 1;
          const style = getComputedStyle(element);
          const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
          const box = element.getBoundingClientRect();
          const shown = box.width > 0 && box.bottom > 0 && box.top < innerHeight;
          const name = element.outerHTML.slice(0, 120);
          return { name, again: element.reached > 1, seen: shown && (outlined || style.boxShadow !== 'none') };
        }""")
        if at is None or at["again"]:
            break
        if not at["seen"]:
            unseen.append(at["name"])
    missed = page.evaluate("() => window.wanted.filter(e => !e.reached).map(e => e.outerHTML.slice(0, 120))")
    return missed, unseen
