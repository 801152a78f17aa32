// Plays the frames of a course_lib.viz Player: a slider with arrow keys, previous, next and play.
// The markup and the frames are player.py's; without this script the page shows the still picture.
(() => {
  "use strict";
  const unpack = async text => {
    const bytes = Uint8Array.from(atob(text), character => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).json();
  };

  async function start(player) {
    const { lines, tracks } = await unpack(player.dataset.frames);
    const part = name => player.querySelector(`[data-part="${name}"]`);
    const [image, slider, play, track, stop, sentence] =
      ["image", "slider", "play", "track", "stop", "sentence"].map(part);
    const frames = () => tracks[track ? track.value : Object.keys(tracks)[0]];
    let timer = null;

    function show() {
      const frame = frames()[slider.value - 1];
      let number = 0;
      const svg = frame.steps.map(step => lines[number += step]).join("\n");
      image.src = "data:image/svg+xml," + encodeURIComponent(svg);
      image.alt = frame.alt;
      sentence.textContent = frame.sentence;
      stop.textContent = frame.stop;
      slider.setAttribute("aria-valuetext", frame.stop);
    }

    function go(number) {
      slider.value = number;
      show();
    }

    function pause() {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
      sentence.setAttribute("aria-live", "polite");
    }

    function toggle() {
      if (timer) return pause();
      sentence.setAttribute("aria-live", "off"); // a screen reader could not keep up
      play.textContent = "Pause";
      if (slider.value === slider.max) go(1);
      timer = setInterval(() => {
        if (slider.value === slider.max || !player.isConnected) pause();
        else go(Number(slider.value) + 1);
      }, Number(player.dataset.interval));
    }

    slider.addEventListener("input", () => { pause(); show(); });
    part("previous").addEventListener("click", () => { pause(); go(Number(slider.value) - 1); });
    part("next").addEventListener("click", () => { pause(); go(Number(slider.value) + 1); });
    play.addEventListener("click", toggle);
    track?.addEventListener("change", () => { pause(); slider.max = frames().length; go(1); });
    play.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches;
    image.width = player.dataset.width;
    image.removeAttribute("height");
    show();
    part("controls").hidden = false;
  }

  for (const player of document.querySelectorAll(".course-player:not([data-started])")) {
    player.dataset.started = "";
    start(player);
  }
})();
