"""The plain words that labels are made of: everyday things, so that no model takes a lot tag for a secret.

No first word ends another first word and no second word begins another second word, so that no label contains another.
"""

from __future__ import annotations

from typing import Final

_FIRST = """
amber ancient apple arched autumn azure balcony bamboo barley basalt basement beige bent birch bistro blue border
bottom brass bright broad broken bronze brown burnt butter camping canvas cardboard carved castle cedar cellar
ceramic chalk checkered cherry chestnut chilly chrome cinnamon circus clay clean cloudy coastal cobalt copper coral
cotton country cracked cream crimson crooked curved damp dark deep desert dotted double dusty early eastern ebony
emerald empty enamel famous fancy farm felt field filigree fluted folded foggy forest fragile frozen fuzzy garden
gentle giant glass glossy golden granite grassy gravel green grey hammered harbour hazel heavy hollow honey
humble icy indigo iron island ivory jade jumbo kitchen knitted lacquered lakeside lavender leather lemon light
linen little lively lonely long loud lunar magenta mahogany maple marble maroon meadow mellow merry metal midnight
mint misty modern mossy mountain muddy narrow neat nickel noisy northern oaken office olive orange orchard oval
painted pale paper parlour patched peach pearl pepper pewter pine plain plastic plum pocket polished porcelain
purple quartz quick quiet quilted railway rainy ribbed river rocky roof rosy rough round royal rubber ruby
rural rustic saffron salty sandy satin scarlet school shaded sharp shiny short silent silk silver simple sleepy
slender slim small smoky smooth snowy soft solid southern speckled spotted spring square stable station steel
stone striped strong sturdy summer sunny sweet tall teal theatre thick thin timber tiny topaz tropical turquoise
upstairs valley vanilla varnished velvet village vintage violet walnut warm western wicker wide wild windy winter
wooden woollen woven yellow young zigzag
"""
_SECOND = """
anchor anvil apron armchair arrow awning bagpipe ballpoint banjo banner barrel basin basket bathtub beacon bell
bench bicycle binder blanket blender boat bobbin bookcase boots bottle bowl bracelet brake bridge broom brush bucket
buckle bugle bus cabinet candle canoe caravan carpet carriage cart cello chain chair chandelier chimney chisel
clarinet clock cloak coat collar column compass cradle crane crate crayon crown cup curtain cushion
desk dish doll door drawer dress drill drum dustpan earring easel elevator engine envelope fan faucet fence fiddle
flagpole flask flute footstool fork fountain freezer fridge funnel gate glider globe gloves goblet gong guitar
hairbrush hammer hammock handcart hanger harmonica harp hat headlamp heater helmet hinge hook hose hourglass
inkwell jacket jar jigsaw jug kayak kennel kettle kite knob lace ladder ladle lamp lantern lawnmower lectern lever
lighthouse loom luggage lute magnet mallet mandolin mantel mask mast mattress medal megaphone microscope mill mirror
mitten mop mug napkin necklace needle notebook oar oboe oven paddle pail palette pan parasol pedal pencil pendulum
piano picture pillow pipe pitcher plate plough pot printer projector propeller puppet purse quill quilt racket
radio raft rake razor recorder ribbon ring rope rowboat rudder rug ruler saddle sandal saucepan saucer saw scarf
scissors scooter screw shelf ship shoe shovel shutter sieve sink skateboard skillet sled slipper soap sofa spade
spatula spindle spoon sprinkler stapler statue stool stove stroller suitcase swing table tambourine
teapot telescope tent thermos thimble tile toaster tongs towel tractor trampoline tray tricycle trolley trombone
trowel trumpet tub turbine tweezers typewriter umbrella vase vest viola wagon wardrobe washer watch wheel whistle
windmill wrench xylophone yacht yoyo zipper
"""
FIRST: Final[tuple[str, ...]] = tuple(_FIRST.split())
SECOND: Final[tuple[str, ...]] = tuple(_SECOND.split())
