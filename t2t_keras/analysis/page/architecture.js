// Figure 1 of the paper with the sizes of this model and the lengths of this sentence.

const BOX = { width: 300, height: 40, gap: 22 };

/** Draws a column of parts from the bottom up. Returns the middle y of each part by id. */
function drawColumn(svg, x, bottom, parts) {
  const places = {};
  let y = bottom;
  let entered = y; // Where the residual connection branches off.
  for (const part of parts) {
    if (part.begins) entered = y;
    y -= BOX.height;
    svg.append(
      shape("rect", { x, y, width: BOX.width, height: BOX.height, rx: 6, class: "box" }),
      shape("text", { x: x + BOX.width / 2, y: y + 17, "text-anchor": "middle" }, part.name),
      shape("text", { x: x + BOX.width / 2, y: y + 33, "text-anchor": "middle", class: "small" },
        part.parameters ? `${part.shape} · ${part.parameters.toLocaleString("en")} learned` : part.shape),
      shape("path", { d: `M${x + BOX.width / 2},${y + BOX.height + BOX.gap - 2} v${4 - BOX.gap}`, class: "arrow", "marker-end": "url(#tip)" }),
    );
    places[part.id] = y + BOX.height / 2;
    if (part.adds) {
      const side = x - 16;
      svg.append(shape("path", {
        d: `M${x + BOX.width / 2},${entered + BOX.gap / 2} H${side} V${y + BOX.height / 2} H${x - 2}`,
        class: "arrow", "marker-end": "url(#tip)",
      }));
    }
    y -= BOX.gap;
  }
  return { places, top: y + BOX.gap };
}

function drawArchitecture() {
  const { encoder, decoder } = data.architecture;
  const rows = Math.max(encoder.parts.length, decoder.parts.length);
  const [width, margin] = [840, 34];
  const height = rows * (BOX.height + BOX.gap) + 2 * margin;
  const bottom = height - margin;
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": "Components and shapes of the model",
  });
  const defs = shape("defs");
  const marker = shape("marker", { id: "tip", viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto" });
  marker.append(shape("path", { d: "M0,0 L6,3 L0,6 z", fill: "var(--muted)" }));
  defs.append(marker);
  svg.append(defs);
  const [left, right] = [70, 495];
  const both = [[encoder, left], [decoder, right]].map(([side, x]) => {
    const column = drawColumn(svg, x, bottom, side.parts);
    const stack = side.parts.filter((part) => part.stacked);
    const [first, last] = [stack[0], stack[stack.length - 1]].map((part) => column.places[part.id]);
    const [low, high] = [first + BOX.height / 2 + 15, last - BOX.height / 2 - 6];
    svg.append(
      shape("rect", { x: x - 26, y: high, width: BOX.width + 36, height: low - high, rx: 8, class: "stack" }),
      shape("text", { x: x - 32, y: (low + high) / 2, "text-anchor": "end", class: "times" }, `${side.layers} ×`),
      shape("text", { x: x + BOX.width / 2, y: height - 3, "text-anchor": "middle", class: "small" }, side.input),
    );
    return column;
  });
  // The encoder output, from above the encoder to the cross-attention of the decoder.
  const [top, entry] = [both[0].top, both[1].places.cross];
  const middle = (left + BOX.width + right) / 2 - 8;
  svg.append(
    shape("path", {
      d: `M${left + BOX.width / 2},${top} v-14 H${middle} V${entry} H${right - 2}`,
      class: "arrow", "marker-end": "url(#tip)",
    }),
    shape("text", { x: left + BOX.width / 2, y: top - 20, "text-anchor": "middle", class: "small" },
      `keys and values of every decoder layer: ${data.architecture.memory}`),
  );
  const box = element("div", { className: "wide" }, svg);
  at("architecture-picture").replaceChildren(
    box, element("p", { className: "muted", textContent: data.architecture.note }),
  );
  letScroll("Architecture", box);
  addEventListener("resize", () => letScroll("Architecture", box));
}
drawArchitecture();
